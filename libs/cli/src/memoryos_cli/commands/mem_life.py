"""`mos mem`: what becomes of items."""

from __future__ import annotations

from typing import Annotated

import typer
from memoryos_sdk.items import Item
from memoryos_sdk.results import Change, Job

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands.job import follow
from memoryos_cli.commands.mem_shared import Ids, ItemId, Path, counted, full_path, object_of
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import moment, short

Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]


def add_to(group: typer.Typer) -> None:
    """Add the commands to the group."""
    for function in (forget, restore, promote, dispute, merge, history, revert, lineage):
        command(group, function.__name__)(function)


async def forget(
    caller: Caller,
    path: Path,
    ids: Annotated[list[str] | None, typer.Argument(help="Names of items (mem_…).", show_default=False)] = None,
    filters: Annotated[
        str | None,
        typer.Option("--filter", help='Instead of names, conditions as one JSON object: {"tags": "old"}.'),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --filter: do not ask after the preview.")] = False,
) -> None:
    """Take items out of every read path: those named, or (after a preview) all that a filter meets."""
    where = full_path(caller, path)
    if (not ids) == (filters is None):
        raise CliError("give names of items, or --filter", exit_code=Exit.USAGE)
    async with caller.client() as client:
        if ids:
            counted(caller, "forgotten", await client.memory.forget(where, ids=ids))
            return
        conditions = object_of(filters, "--filter") or {}
        preview = await client.memory.preview_forget(where, conditions)
        if not preview.matched_count:
            counted(caller, "forgotten", 0)
            return
        if not yes and not typer.confirm(f"Forget {preview.matched_count} items below {where}?", err=True):
            raise CliError("nothing was forgotten", exit_code=Exit.INTERRUPTED)
        counted(caller, "forgotten", await client.memory.forget_previewed(where, conditions, preview))


async def restore(caller: Caller, path: Path, ids: Ids) -> None:
    """Bring forgotten items back as they were."""
    async with caller.client() as client:
        counted(caller, "restored", await client.memory.restore(full_path(caller, path), ids=ids))


async def promote(
    caller: Caller,
    path: Path,
    item_id: ItemId,
    reason: Reason = "",
    evidence: Annotated[
        str | None,
        typer.Option("--evidence", help='An independent source: {"document": "a.pdf", "page": 3}; none: you vouch.'),
    ] = None,
) -> None:
    """Let a candidate through the confidence gate."""
    async with caller.client() as client:
        item = await client.memory.promote(
            full_path(caller, path), item_id, reason=reason, evidence=object_of(evidence, "--evidence")
        )
    _shown(caller, item)


async def dispute(caller: Caller, path: Path, item_id: ItemId, reason: Reason = "") -> None:
    """Send an item back behind the gate: a candidate again, for a day."""
    async with caller.client() as client:
        item = await client.memory.dispute(full_path(caller, path), item_id, reason=reason)
    _shown(caller, item)


async def merge(
    caller: Caller,
    path: Path,
    ids: Ids,
    content: Annotated[
        str | None, typer.Option("--content", help="The text that stands for them; none: a model writes it.")
    ] = None,
) -> None:
    """Make one more abstract item of several, which become superseded."""
    async with caller.client() as client:
        made = await client.memory.merge(full_path(caller, path), ids, content=content)
        if isinstance(made, Job):
            await follow(caller, client, made)
            return
    _shown(caller, made)


async def history(
    caller: Caller, item_id: ItemId, limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 50
) -> None:
    """Show what became of an item, newest first."""
    async with caller.client() as client:
        changes = await client.memory.history(item_id).take(limit)
    if caller.output.as_json:
        caller.output.value(changes)
        return
    caller.output.table(("time", "revision", "what", "state", "who", "content"), map(change_row, changes))


def change_row(change: Change) -> tuple[object, ...]:
    """Give a change as a row."""
    who = ">".join((change.user, *change.agent_chain))
    state = f"{change.from_state} → {change.to_state}" if change.from_state else change.to_state
    content = short(change.item.content) if change.item else ""
    return moment(change.time), change.revision, change.cause, state, who, content


async def revert(
    caller: Caller,
    path: Path,
    item_id: ItemId,
    revision: Annotated[int, typer.Argument(min=1, help="The earlier revision.", show_default=False)],
    if_match: Annotated[str, typer.Option("--if-match", help="Only if it still has this etag.")] = "",
) -> None:
    """Give an item the values of an earlier revision, as a new one."""
    async with caller.client() as client:
        item = await client.memory.revert(full_path(caller, path), item_id, revision, if_match=if_match)
    _shown(caller, item)


async def lineage(
    caller: Caller, item_id: ItemId, depth: Annotated[int, typer.Option("--depth", min=0, max=16)] = 0
) -> None:
    """Show where an item came from and what came of it."""
    async with caller.client() as client:
        found = await client.memory.lineage(item_id, depth=depth)
    if caller.output.as_json:
        caller.output.value(found)
        return
    contents = {item.id: short(item.content, 60) for item in found.items}
    caller.output.table(
        ("from", "how", "to", "content"),
        ((start, how, end, contents.get(end, "")) for start, end, how in found.edges),
        empty="it hangs together with nothing that you may read",
    )
    if found.truncated:
        caller.output.note("note: there is more; see --depth")


def _shown(caller: Caller, item: Item) -> None:
    if caller.output.as_json:
        caller.output.value(item)
        return
    caller.output.line(f"{item.id}  revision {item.revision}  {item.state}")
    caller.output.line(f"  {short(item.content, 400)}")
