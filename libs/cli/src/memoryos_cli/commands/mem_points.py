"""`mos mem`: snapshots, what differs, and going back."""

from __future__ import annotations

from typing import Annotated

import typer
from memoryos_sdk.results import Difference, Snapshot

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands.job import follow
from memoryos_cli.commands.mem_shared import Path, full_path
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import moment, short

SnapshotId = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Name of a snapshot (snap_…).", show_default=False)]


def add_to(group: typer.Typer) -> None:
    """Add the commands to the group."""
    command(group, "snapshot")(create)
    command(group, "snapshots")(list_snapshots)
    for function in (diff, rollback):
        command(group, function.__name__)(function)


async def create(
    caller: Caller,
    path: Path,
    title: Annotated[str, typer.Option("--title", help="What people call it.")] = "",
    channel: Annotated[str, typer.Option("--channel", help="The newest five of each are kept.")] = "manual",
) -> None:
    """Name this moment of a subtree."""
    async with caller.client() as client:
        made = await client.memory.create_snapshot(full_path(caller, path), channel=channel, title=title)
    if caller.output.as_json:
        caller.output.value(made)
        return
    caller.output.line(made.id)


async def list_snapshots(
    caller: Caller, path: Path, channel: Annotated[str, typer.Option("--channel", help="Only this channel.")] = ""
) -> None:
    """List the snapshots that concern a path, newest first."""
    async with caller.client() as client:
        found = await client.memory.list_snapshots(full_path(caller, path), channel=channel).all()
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(("snapshot", "made", "channel", "by", "title", "path"), map(_row, found), empty="no snapshots")


def _row(one: Snapshot) -> tuple[object, ...]:
    return one.id, moment(one.create_time), one.channel, one.user, one.title, one.path


async def diff(
    caller: Caller,
    path: Path,
    snapshot: SnapshotId,
    to: Annotated[str, typer.Option("--to", help="A later snapshot; none: now.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 200,
) -> None:
    """Show what differs between a snapshot and a later one, or now."""
    async with caller.client() as client:
        found = await client.memory.diff(full_path(caller, path), snapshot, to).take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(("item", "how", "fields", "then → now"), map(_difference, found), empty="no difference")


def _difference(one: Difference) -> tuple[object, ...]:
    before, after = (short(side.content, 60) if side else "–" for side in (one.before, one.after))
    return one.id, one.kind, one.fields, before if before == after else f"{before} → {after}"


async def rollback(
    caller: Caller,
    path: Path,
    snapshot: SnapshotId,
    actor: Annotated[str, typer.Option("--actor", help="Only what user:U or agent:U/NAME changed since.")] = "",
    session: Annotated[str, typer.Option("--session", help="Only what came from this session.")] = "",
    since: Annotated[str | None, typer.Option("--since", help="Only what changed at this time or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only what changed before this time.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only say what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask after the preview.")] = False,
) -> None:
    """Give a subtree the state of a snapshot, by new revisions; a snapshot taken just before undoes it."""
    where = full_path(caller, path)
    changed = (since, until) if since or until else None
    async with caller.client("user") as client:
        seen = await client.memory.rollback(
            where, snapshot, actor=actor, source_session_id=session, changed=changed, preview=True
        )
        counts = (
            f"{seen.reverted_count} given back an earlier state, {seen.forgotten_count} forgotten,"
            f" {seen.restored_count} restored, {seen.erased_count} erased for good"
        )
        if preview:
            caller.output.value(seen) if caller.output.as_json else caller.output.line(counts)
            return
        if not yes and not typer.confirm(f"{counts}. Roll back {where}?", err=True):
            raise CliError("nothing was changed", exit_code=Exit.INTERRUPTED)
        done = await client.memory.rollback(
            where, snapshot, actor=actor, source_session_id=session, changed=changed, timeout_s=120
        )
        if done.job is not None:
            await follow(caller, client, done.job)
            return
    if caller.output.as_json:
        caller.output.value(done)
        return
    caller.output.line(counts)
    caller.output.line(f"to undo: mos mem rollback {where} {done.undo_snapshot_id}", style="dim")
