"""`mos index`: the vector index of the installation, for operators."""

from __future__ import annotations

from typing import Annotated

import typer
from memoryos_sdk.results import IndexStatus

from memoryos_cli.caller import Caller, command
from memoryos_cli.commands.job import follow

_ROLE = "operator"


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="The vector index: its state, moves between backends, verification.", no_args_is_help=True)
    app.add_typer(group, name="index")
    for function in (status, migrate, verify):
        command(group, function.__name__)(function)


async def status(caller: Caller) -> None:
    """Show which backend answers, and what waits to be copied."""
    async with caller.client(_ROLE) as client:
        found = await client.index.status()
    _shown(caller, found)


async def migrate(
    caller: Caller,
    to: Annotated[str, typer.Argument(help="pgvector or qdrant.", show_default=False)],
    step: Annotated[str, typer.Option("--step", help="start, cut_over, roll_back or finish.")] = "start",
) -> None:
    """Take one step of a move to another backend, while reads and writes go on."""
    async with caller.client(_ROLE) as client:
        job, found = await client.index.migrate(to, step)
        if job is not None:
            await follow(caller, client, job)
            return
    _shown(caller, found)


async def verify(
    caller: Caller, repair: Annotated[bool, typer.Option("--repair", help="Repair what is found.")] = False
) -> None:
    """Compare the index with the truth."""
    async with caller.client(_ROLE) as client:
        await follow(caller, client, await client.index.verify(repair=repair))


def _shown(caller: Caller, found: IndexStatus) -> None:
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.fields(
        [
            ("backend", found.backend),
            ("written beside it", found.other_backend),
            ("move", found.phase),
            ("waits to be copied", found.pending_count),
            ("oldest of it", found.oldest_pending_time),
            ("given up", found.dead_letter_count),
            ("without a vector", found.unembedded_count),
            ("answered by", "the fallback" if found.degraded else ""),
            ("model", f"{found.embedding_model} ({found.dimensions} numbers)"),
        ]
    )
