"""A task followed in the terminal: finished steps stay as lines, what is under way moves where there is a screen."""

from __future__ import annotations

import asyncio

from memoryos_sdk import Client
from memoryos_sdk.tasks import TaskEvent

from memoryos_cli.caller import Caller
from memoryos_cli.review_sheet import cut
from memoryos_cli.task_story import STATES, step_line

LINE_CELLS = 100


async def follow(caller: Caller, client: Client, task_id: str, *, after: int = 0, quiet: bool = False) -> None:
    """Show the events of a task until it ends; with --json one a line. `quiet`: nothing is shown.

    An interrupt leaves the task running and says how to come back to it.
    """
    seen = after
    try:
        with caller.output.progress(f"{task_id} …") as progress:
            async for event in client.tasks.watch(task_id, after_sequence=after):
                seen = event.sequence
                if quiet:
                    continue
                if caller.output.as_json:
                    caller.output.json_line(event)
                    continue
                for line in lines_of(event):
                    caller.output.line(line)
                progress(_now(event))
    except asyncio.CancelledError:
        caller.output.note(
            f"{task_id} goes on without you\n"
            f"  mos task watch {task_id} --after {seen}  comes back to it\n"
            f"  mos task cancel {task_id}  stops it"
        )
        raise


def lines_of(event: TaskEvent) -> list[str]:
    """Give what stays on the screen of an event: a step that ended, and what a person has to do."""
    step, lines = event.step, []
    if step is not None and step.state != "started":
        lines.append(f"{event.state:<15} {step_line(step, LINE_CELLS)}")
    elif step is None or event.state in ("waiting_review", "waiting_task", "paused", "failed", "cancelling"):
        lines.append(f"{event.state:<15} {STATES.get(event.state, '')}".rstrip())
    if step is not None and event.state == "waiting_review" and step.review_id:
        lines.append(f"{'':<15} a person must decide: mos review show {step.review_id}")
    if event.state == "paused":
        lines.append(f"{'':<15} it goes on with: mos task resume TASK -m NOTE")
    return lines


def _now(event: TaskEvent) -> str:
    about = f"  {step_line(event.step, LINE_CELLS)}" if event.step is not None and event.step.state == "started" else ""
    return cut(f"{event.state}: {STATES.get(event.state, '')}{about}", LINE_CELLS)
