"""`mos skill` and `mos call`: the tools a caller may use, and using one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from memoryos_sdk.calls import Call

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands import skill_files
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import short

REFUSED = {"denied": Exit.NOT_ALLOWED, "failed": Exit.OTHERWISE, "unknown": Exit.OTHERWISE, "cancelled": Exit.OTHERWISE}


def add_to(app: typer.Typer) -> None:
    """Add the group and `call` to `app`."""
    group = typer.Typer(help="Skills: what agents may call.", no_args_is_help=True)
    app.add_typer(group, name="skill")
    command(group, "list")(list_skills)
    command(group, "show")(show)
    command(group, "search")(search)
    skill_files.add_to(group)
    command(app, "call")(call)


async def list_skills(
    caller: Caller,
    everything: Annotated[
        bool, typer.Option("--all", help="Those of the files, also the quarantined ones and why; no gateway is asked.")
    ] = False,
    folders: skill_files.Folders = None,
) -> None:
    """List the skills that the caller could be allowed to call."""
    if everything or folders:
        await skill_files.list_files(caller, folders)
        return
    async with caller.client() as client:
        found = await client.tools.list().all()
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["skill", "version", "effect", "risk", "description"],
        [(s.name, s.version, s.effect_class, s.risk, short(s.description, 200)) for s in found],
        empty="no skill is open to this caller",
    )


async def search(
    caller: Caller,
    words: Annotated[list[str], typer.Argument(help="What is to be done.", show_default=False)],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Skills at most.")] = 10,
) -> None:
    """Find skills by what they are for, among those that the caller could be allowed to call."""
    async with caller.client() as client:
        found = await client.tools.search(" ".join(words), top_k=limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["score", "skill", "effect", "risk", "description"],
        [
            (f"{hit.score:.2f}", s.name, s.effect_class, s.risk, short(s.description, 160))
            for hit in found.hits
            for s in (hit.skill,)
        ],
        empty="no skill fits",
    )
    if found.words_only:
        caller.output.line("by words alone: meaning could not be compared just now", style="dim")


async def show(caller: Caller, name: Annotated[str, typer.Argument(show_default=False)]) -> None:
    """Show one skill with the schema of its arguments."""
    async with caller.client() as client:
        found = await client.tools.get(name)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.fields(
        [
            ("name", found.name),
            ("version", found.version),
            ("effect", found.effect_class),
            ("risk", found.risk),
            ("egress", found.egress),
            ("destructive", "it removes or overwrites what cannot be brought back" if found.destructive else ""),
            ("opened", "for writing" if found.opened else "no: it may read only"),
            ("permissions", found.permissions),
            ("time-out", f"{found.timeout.total_seconds():g} s"),
            ("digest", found.definition_digest),
        ]
    )
    caller.output.line(f"\n{found.description}\n")
    caller.output.value(found.parameters)


async def call(
    caller: Caller,
    skill: Annotated[str, typer.Argument(show_default=False)],
    arguments: Annotated[str, typer.Argument(help="One JSON object; - reads standard input.")] = "{}",
    request_id: Annotated[
        str | None, typer.Option("--request-id", help="The same id is the same call for ever.", show_default=False)
    ] = None,
) -> None:
    """Make a call of a skill, or learn what became of it.

    Exit code 4 when policy denied it, 9 when it failed or its outcome is unknown.
    """
    async with caller.client() as client:
        made = await client.tools.call(
            skill, sys.stdin.read() if arguments == "-" else arguments, request_id=request_id
        )
    show_call(caller, made)
    if made.state in REFUSED:
        raise CliError(
            made.agent_message or f"the call is {made.state}",
            hint=f"`mos decision show {made.decision_id}` says why, to an auditor" if made.decision_id else "",
            exit_code=REFUSED[made.state],
            reason=made.error_code or made.state,
        )


def show_call(caller: Caller, made: Call) -> None:
    """Print one call."""
    if caller.output.as_json:
        caller.output.value(made)
        return
    caller.output.fields(
        [
            ("call", made.id),
            ("state", made.state),
            ("decision", made.decision_id),
            ("review", made.review_id),
            ("trace", made.trace_id),
        ]
    )
    if made.fallback:
        caller.output.line("the fallback of the skill answers, for its upstream failed too often")
    if made.state == "succeeded":
        caller.output.value(made.result)
    if made.full_result_bytes:
        caller.output.line(f"cut, {made.full_result_bytes:,} bytes in all: mos calls show {made.id} --full")
    if made.state == "parked":
        caller.output.line(f"a person must decide: mos review show {made.review_id}")
