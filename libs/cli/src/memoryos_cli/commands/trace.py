"""`mos trace`: one trace as a tree, from the span files of the data folder."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from memoryos_telemetry.trace_tree import trace_tree

from memoryos_cli.caller import Caller, command
from memoryos_cli.exits import CliError, Exit

_TRACE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def add_to(app: typer.Typer) -> None:
    """Add the command to `app`."""
    command(app, "trace")(trace)


async def trace(
    caller: Caller,
    of: Annotated[
        str,
        typer.Argument(
            metavar="TASK|CALL|DECISION|TRACE", help="A name, or the 32 hex digits of a trace.", show_default=False
        ),
    ],
) -> None:
    """Show one trace as a tree, without any collector."""
    trace_id = of if _TRACE_ID.fullmatch(of) else await _trace_of(caller, of)
    found = trace_tree(caller.data.spans, trace_id)
    if not found.rows:
        raise CliError(
            f"no span file here has trace {trace_id}",
            hint="old spans go first; see telemetry.span_file_bytes_max",
            exit_code=Exit.NOT_FOUND,
        )
    if caller.output.as_json:
        caller.output.value(found)
    else:
        caller.output.line(found.render())


async def _trace_of(caller: Caller, name: str) -> str:
    kind = name.partition("_")[0]
    async with caller.client("agent", "user", "auditor") as client:
        if kind == "task":
            trace_id = (await client.tasks.get(name)).trace_id
        elif kind == "call":
            trace_id = (await client.tools.get_call(name)).trace_id
        elif kind == "dec":
            trace_id = (await client.decisions.get(name)).trace_id
        else:
            raise CliError(f"{name} is no task, call, decision or trace id", exit_code=Exit.USAGE)
    if not trace_id:
        raise CliError(f"{name} has no trace", exit_code=Exit.NOT_FOUND)
    return trace_id
