"""`mos task`: durable runs of agents."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import typer
from memoryos_sdk import Client, NotFound, PermissionDenied
from memoryos_sdk.tasks import Task, TaskFilter, TaskLimits

from memoryos_cli.caller import Caller, command
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.output import moment, plain
from memoryos_cli.review_sheet import cut, shown
from memoryos_cli.task_progress import follow
from memoryos_cli.task_story import STATES, Told, readable, story

T = TypeVar("T")
DEPTH_MAX: Final = 8
ASKED_CELLS: Final = 60
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="Name of a task (task_…).", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Tasks: durable runs of agents.", no_args_is_help=True)
    app.add_typer(group, name="task")
    command(group, "list")(list_tasks)
    for function in (run, show, watch, pause, resume, cancel, retry, steps):
        command(group, function.__name__)(function)


async def run(
    caller: Caller,
    agent: Annotated[str, typer.Argument(help="Name of an agent file.", show_default=False)],
    text: Annotated[str, typer.Argument(help="What is asked.", show_default=False)],
    session_id: Annotated[
        str | None, typer.Option("--session", help="Session to speak in; a new one when not given.", show_default=False)
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Only submit it.")] = False,
    priority: Annotated[int, typer.Option("--priority", min=0, max=9, help="Sooner when higher.")] = 0,
    seconds: Annotated[int, typer.Option("--seconds", min=0, help="Time it may take; 0: as its agent may.")] = 0,
) -> None:
    """Run a task of an agent and follow it to its answer.

    Ctrl-C leaves it running. Exit code 9 when it ends without an answer.
    """
    async with caller.client() as client:
        session_id = session_id or (await client.sessions.create()).id
        limits = TaskLimits(seconds=seconds)
        task = await client.tasks.submit(agent, session_id=session_id, input=text, priority=priority, limits=limits)
        if background:
            _standing(caller, task)
            return
        if not caller.output.as_json:
            caller.output.note(f"{task.id} in {session_id}; Ctrl-C leaves it running")
        await follow(caller, client, task.id, quiet=caller.output.as_json)
        _end(caller, await client.tasks.get(task.id))


async def list_tasks(
    caller: Caller,
    state: Annotated[list[str] | None, typer.Option("--state", help=f"{', '.join(STATES)}; may be repeated.")] = None,
    session_id: Annotated[str, typer.Option("--session", help="Only of this session.")] = "",
    agent: Annotated[str, typer.Option("--agent", help="Only of this agent.")] = "",
    parent: Annotated[str, typer.Option("--parent", help="Only sub-agents of this task.")] = "",
    all_users: Annotated[bool, typer.Option("--all-users", help="Of the whole tenant, for operators.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Tasks at most.")] = 50,
) -> None:
    """List tasks, newest first: the caller's own, or with --all-users whose tasks there are, without contents."""
    wanted = TaskFilter(states=tuple(state or ()), session_id=session_id, agent=agent, parent_task_id=parent)
    async with caller.client(*(("operator",) if all_users else ("agent", "user"))) as client:
        found = await client.tasks.list(wanted, all_users=all_users, page_size=min(limit, 500)).take(limit)
    if caller.output.as_json:
        caller.output.value(found)
        return
    caller.output.table(
        ["task", "state", "agent", "user", "steps", "tokens", "made", "asked"],
        [
            (
                t.id, t.state, shown(t.agent), shown(t.actor.user), t.step_count, t.token_count,
                moment(t.create_time), cut(shown(t.input), ASKED_CELLS),
            )
            for t in found
        ],
        empty="no task of this caller",
    )  # fmt: skip


async def show(
    caller: Caller,
    task_id: TaskId,
    full: Annotated[bool, typer.Option("--full", help="Cut nothing.")] = False,
) -> None:
    """Tell one task: what it knew, what it decided, what was allowed, what it cost, its sub-agents' tasks indented.

    Why a call was allowed or refused is said to auditors: --role user --role auditor.
    """
    async with caller.client() as client:
        told = await _told(client, task_id)
    if caller.output.as_json:
        caller.output.value(_as_json(told))
        return
    for number, line in enumerate(story(told, datetime.now(UTC), full=full)):
        gap = "\n" if line.heading and number and not line.text.startswith(" ") else ""
        caller.output.line(gap + line.text, style="bold" if line.heading else "")
    for number, (wanted, meaning) in enumerate(_next(told)):
        caller.output.line(("" if number else "\n") + wanted, style="bold")
        caller.output.line(f"    {meaning}")


async def watch(
    caller: Caller,
    task_id: TaskId,
    after: Annotated[int, typer.Option("--after", min=0, help="Only events after this sequence.")] = 0,
) -> None:
    """Follow a task until it ends; with --json one event per line. Ctrl-C leaves it running."""
    async with caller.client() as client:
        await follow(caller, client, task_id, after=after)
        if not caller.output.as_json:
            _end(caller, await client.tasks.get(task_id))


async def pause(caller: Caller, task_id: TaskId) -> None:
    """Let a task rest after the step under way, until it is resumed."""
    async with caller.client() as client:
        _standing(caller, await client.tasks.pause(task_id))


async def resume(
    caller: Caller,
    task_id: TaskId,
    note: Annotated[str, typer.Option("--note", "-m", help="For its agent, in your words.")] = "",
) -> None:
    """Let a paused task go on, with a word for its agent if there is one."""
    async with caller.client("user") as client:
        _standing(caller, await client.tasks.resume(task_id, note=note))


async def cancel(caller: Caller, task_id: TaskId) -> None:
    """Ask a task to stop before its next step, and its sub-agents with it."""
    async with caller.client() as client:
        _standing(caller, await client.tasks.cancel(task_id))


async def retry(caller: Caller, task_id: TaskId) -> None:
    """Have a dead or failed task tried again; it goes on after its last finished step."""
    async with caller.client("user") as client:
        _standing(caller, await client.tasks.retry(task_id))


async def steps(
    caller: Caller,
    task_id: TaskId,
    full: Annotated[bool, typer.Option("--full", help="With what went in and came out.")] = False,
) -> None:
    """Show the journaled steps of a task, as programs see them."""
    async with caller.client() as client:
        found = await client.tasks.steps(task_id).all()
    if caller.output.as_json:
        caller.output.value(found)
        return
    if full:
        for step in found:
            caller.output.line(f"#{step.sequence} {step.kind} {shown(step.target)} {step.state}", style="bold")
            for name, value in (("in", step.input), ("out", step.output)):
                if value is not None:
                    caller.output.line(f"  {name}: {shown(json.dumps(value, ensure_ascii=False))}")
        return
    caller.output.table(
        ["#", "kind", "target", "state", "epoch", "call", "decision", "started"],
        [
            (
                s.sequence, s.kind, shown(s.target), s.state, s.lease_epoch, s.call_id, s.decision_id,
                moment(s.create_time),
            )
            for s in found
        ],
        empty="no step yet",
    )  # fmt: skip


async def _told(client: Client, task_id: str, depth: int = 0) -> Told:
    """Give a task with what of it the caller may see, and the tasks of its sub-agents."""
    task = await client.tasks.get(task_id)
    found = await client.tasks.steps(task_id, page_size=500).all()
    decisions, reviews, children = {}, {}, {}
    for step in found:
        if step.decision_id and (decision := await _visible(client.decisions.get(step.decision_id))):
            decisions[step.decision_id] = decision
        if step.review_id and (review := await _visible(client.reviews.get(step.review_id))):
            reviews[step.review_id] = review
        if step.child_task_id and depth < DEPTH_MAX:
            children[step.child_task_id] = await _told(client, step.child_task_id, depth + 1)
    return Told(task=task, steps=found, decisions=decisions, reviews=reviews, children=children)


async def _visible(found: Awaitable[T]) -> T | None:
    """Give what is found, or None where it is not this caller's to see."""
    try:
        return await found
    except (NotFound, PermissionDenied):
        return None


def _as_json(told: Told) -> dict[str, Any]:
    fields: dict[str, Any] = plain(told.task)
    children = [_as_json(child) for child in told.children.values()]
    return {**fields, "step_list": plain(told.steps), "children": children}


def _next(told: Told) -> list[tuple[str, str]]:
    """Give commands and what they do, by where the task stands."""
    task = told.task
    waiting = [step.review_id for step in told.steps if step.review_id and step.state == "started"]
    if task.state == "waiting_review" and waiting:
        return [(f"mos review show {waiting[-1]}", "shows what a person has to decide")]
    if task.state == "paused":
        return [(f"mos task resume {task.id} -m NOTE", "lets it go on"), (f"mos task cancel {task.id}", "stops it")]
    if task.state == "dead":
        return [(f"mos task retry {task.id}", "tries it again after its last finished step")]
    if task.ended:
        return [(f"mos trace {task.id}", "shows where the time went")]
    return [(f"mos task watch {task.id}", "follows it to its end"), (f"mos task cancel {task.id}", "stops it")]


def _standing(caller: Caller, task: Task) -> None:
    """Say where the task stands now."""
    if caller.output.as_json:
        caller.output.value(task)
        return
    caller.output.line(f"{task.id} is {task.state}: {STATES.get(task.state, '')}".rstrip(": "))


def _end(caller: Caller, task: Task) -> None:
    """Print the answer, or fail with why there is none."""
    if caller.output.as_json:
        caller.output.value(task)
    elif task.state == "succeeded":
        caller.output.line(readable(task.output))
    if task.state != "succeeded":
        message = shown(task.error_message) or f"the task ended as {task.state}"
        raise CliError(
            message,
            hint=f"`mos task show {task.id}` tells what it did",
            exit_code=Exit.OTHERWISE,
            reason=task.error_code or task.state,
        )
