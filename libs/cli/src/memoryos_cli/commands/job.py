"""`mos job`: long operations, with their progress."""

from __future__ import annotations

from typing import Annotated

import typer
from memoryos_sdk import Client
from memoryos_sdk.results import Job
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from memoryos_cli.caller import Caller, command
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import moment

JobId = Annotated[str, typer.Argument(metavar="ID", help="Name of a job (job_…).", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Long operations: list, show, watch, cancel.", no_args_is_help=True)
    app.add_typer(group, name="job")
    for function in (show, watch, cancel):
        command(group, function.__name__)(function)
    command(group, "list")(list_jobs)


async def list_jobs(
    caller: Caller,
    kind: Annotated[str, typer.Option("--kind", help="Only this kind, e.g. memory.purge.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 20,
) -> None:
    """List jobs, newest first."""
    async with caller.client() as client:
        found = await client.jobs.list(kind=kind).take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ("job", "kind", "state", "phase", "done", "asked for", "ended", "why"),
        (
            (j.id, j.kind, j.state, j.phase, _done(j), moment(j.create_time), moment(j.end_time), j.error_reason)
            for j in found
        ),
        empty="no jobs",
    )


async def show(caller: Caller, job_id: JobId) -> None:
    """Show one job."""
    async with caller.client() as client:
        found = await client.jobs.get(job_id)
    _shown(caller, found)


async def watch(caller: Caller, job_id: JobId) -> None:
    """Follow a job to its end."""
    async with caller.client() as client:
        await follow(caller, client, await client.jobs.get(job_id))


async def cancel(caller: Caller, job_id: JobId) -> None:
    """Ask a job to stop at its next safe place."""
    async with caller.client() as client:
        found = await client.jobs.cancel(job_id)
    _shown(caller, found)


async def follow(caller: Caller, client: Client, job: Job) -> Job:
    """Show the progress of a job until it has ended, then what came of it; CliError when it did not succeed."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=caller.output.as_json, transient=True) as progress:
        bar = progress.add_task(job.kind, total=job.total_count or None)

        def tell(now: Job) -> None:
            said = f"{now.kind} {now.phase}".strip()
            progress.update(bar, description=said, completed=now.done_count, total=now.total_count or None)

        ended = await client.jobs.wait(job.id, progress=tell)
    _shown(caller, ended)
    if ended.state != "succeeded":
        raise CliError(f"{ended.kind} {ended.state}", reason=ended.error_reason, exit_code=Exit.OTHERWISE)
    return ended


def _shown(caller: Caller, job: Job) -> None:
    if caller.output.as_json:
        caller.output.value(job)
        return
    caller.output.fields(
        [
            ("job", job.id),
            ("kind", job.kind),
            ("state", job.state),
            ("phase", job.phase),
            ("done", _done(job)),
            ("attempts", job.attempts),
            ("asked for", job.create_time),
            ("ended", job.end_time),
            ("why", job.error_reason),
            ("result", job.result),
        ]
    )


def _done(job: Job) -> str:
    return f"{job.done_count}/{job.total_count}" if job.total_count else str(job.done_count or "")
