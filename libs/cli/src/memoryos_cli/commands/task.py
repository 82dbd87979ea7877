"""`mos task`: durable runs of agents."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from memoryos_sdk import Client
from memoryos_sdk.tasks import Step, Task

from memoryos_cli.caller import Caller, command
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import moment, short

TaskId = Annotated[str, typer.Argument(metavar="TASK", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Tasks: durable runs of agents.", no_args_is_help=True)
    app.add_typer(group, name="task")
    for function in (run, show, watch, cancel, steps):
        command(group, function.__name__)(function)


async def run(
    caller: Caller,
    agent: Annotated[str, typer.Argument(help="Name of an agent file.", show_default=False)],
    text: Annotated[str, typer.Argument(help="What is asked.", show_default=False)],
    session_id: Annotated[
        str | None, typer.Option("--session", help="Session to speak in; a new one when not given.", show_default=False)
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Only submit it.")] = False,
) -> None:
    """Run a task of an agent and follow it to its answer.

    Ctrl-C leaves it running. Exit code 9 when it ends without an answer.
    """
    async with caller.client() as client:
        session_id = session_id or (await client.sessions.create()).id
        task = await client.tasks.submit(agent, session_id=session_id, input=text)
        if background:
            _show(caller, task)
            return
        if not caller.output.as_json:
            caller.output.note(f"{task.id} in {session_id}; `mos task cancel {task.id}` stops it")
        await _follow(caller, client, task.id, quiet=caller.output.as_json)
        _end(caller, await client.tasks.get(task.id))


async def show(caller: Caller, task_id: TaskId) -> None:
    """Show one task."""
    async with caller.client() as client:
        _show(caller, await client.tasks.get(task_id))


async def watch(
    caller: Caller,
    task_id: TaskId,
    after: Annotated[int, typer.Option("--after", min=0, help="Only events after this sequence.")] = 0,
) -> None:
    """Follow a task until it ends; with --json one event per line."""
    async with caller.client() as client:
        await _follow(caller, client, task_id, after=after)
        if not caller.output.as_json:
            _end(caller, await client.tasks.get(task_id))


async def cancel(caller: Caller, task_id: TaskId) -> None:
    """Ask a task to stop before its next step."""
    async with caller.client() as client:
        _show(caller, await client.tasks.cancel(task_id))


async def steps(
    caller: Caller,
    task_id: TaskId,
    full: Annotated[bool, typer.Option("--full", help="With what went in and came out.")] = False,
) -> None:
    """Show the journaled steps of a task."""
    async with caller.client() as client:
        found = await client.tasks.steps(task_id).all()
    if caller.output.as_json:
        caller.output.value(found)
        return
    if full:
        for step in found:
            caller.output.line(_line(step), style="bold")
            for name, value in (("in", step.input), ("out", step.output)):
                if value is not None:
                    caller.output.line(f"  {name}: {json.dumps(value, ensure_ascii=False)}")
        return
    caller.output.table(
        ["#", "kind", "target", "state", "epoch", "call", "decision", "started"],
        [
            (s.sequence, s.kind, s.target, s.state, s.lease_epoch, s.call_id, s.decision_id, moment(s.create_time))
            for s in found
        ],
        empty="no step yet",
    )


async def _follow(caller: Caller, client: Client, task_id: str, *, after: int = 0, quiet: bool = False) -> None:
    async for event in client.tasks.watch(task_id, after_sequence=after):
        if quiet:
            continue
        if caller.output.as_json:
            caller.output.value(event)
            continue
        caller.output.line(f"{event.state:<15} {_line(event.step) if event.step else ''}".rstrip(), style="dim")
        if event.state == "waiting_review" and event.step and event.step.review_id:
            caller.output.line(f"                a person must decide: mos review show {event.step.review_id}")


def _line(step: Step) -> str:
    ids = "  ".join(name for name in (step.call_id, step.decision_id, step.review_id) if name)
    return f"#{step.sequence} {step.kind} {step.target} {step.state}  {ids}".rstrip()


def _show(caller: Caller, task: Task) -> None:
    if caller.output.as_json:
        caller.output.value(task)
        return
    caller.output.fields(
        [
            ("task", task.id),
            ("agent", f"{task.agent} ({task.agent_version[:12]})"),
            ("session", task.session_id),
            ("state", task.state),
            ("attempt", task.attempt),
            ("steps", task.step_count),
            ("trace", task.trace_id),
            ("made", task.create_time),
            ("ended", task.end_time),
            ("error", " ".join(part for part in (task.error_code, task.error_message) if part)),
            ("asked", short(task.input, 400)),
        ]
    )
    if task.output:
        caller.output.line(f"\n{task.output}")


def _end(caller: Caller, task: Task) -> None:
    """Print the answer, or fail with why there is none."""
    if caller.output.as_json:
        caller.output.value(task)
    elif task.state == "succeeded":
        caller.output.line(task.output)
    if task.state != "succeeded":
        details: dict[str, Any] = {"hint": f"`mos task steps {task.id}` and `mos trace {task.id}` show what it did"}
        message = task.error_message or f"the task ended as {task.state}"
        raise CliError(message, exit_code=Exit.OTHERWISE, reason=task.error_code or task.state, **details)
