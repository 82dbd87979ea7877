"""The page-out step: the oldest turns of the conversation go to the task's working memory, word for word."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import DependencyUnavailable, NotAllowed

from memoryos_harness.domain.actions import PageOut
from memoryos_harness.domain.grants import working_place_of
from memoryos_harness.domain.prompt import turn_text
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step, StepResult
from memoryos_harness.domain.window import Turn, turns_of
from memoryos_harness.operations.bind_memory import bind_memory
from memoryos_harness.operations.task_run import AttemptFailed, TaskRun

PAGE_BYTES_MAX: Final = 90_000
"""Text of one item; a longer page is several items."""
ITEMS_MAX: Final = 200
"""Items of one page-out; what is beyond stays in the task's steps only."""
WORKING_MEMORY: Final = "working_memory"
_LOG: Final = logging.getLogger(__name__)


async def page_out(run: TaskRun, *, away: PageOut | None = None, started: Step | None = None) -> None:
    """Journal what was put away and where, or carry a started step to its end: the same step writes the same items.

    Fails the attempt when MemoryFS does not answer. A task that may write no
    working memory leaves the turns out of the conversation all the same: they
    stay in its steps.
    """
    lease = run.claim.lease
    if started is None:
        assert away is not None
        crash_point("harness.step.before_journal")
        given = {"from": away.first, "to": away.last}
        step = await run.ports.journal.begin(lease, kind=StepKind.PAGE_OUT, target=WORKING_MEMORY, given=given)
    else:
        step = await run.ports.journal.resume(lease, started)
    run.started(step)
    crash_point("harness.step.after_started")
    turns = _turns(run, step)
    item_ids = await _written(run, step, turns)
    crash_point("harness.step.after_effect")
    output = {"item_id": item_ids[0] if item_ids else "", "tokens": sum(turn.tokens for turn in turns)}
    await run.finish(step, StepResult(state=StepState.DONE, output=output, item_ids=item_ids))
    crash_point("harness.step.after_done")


def _turns(run: TaskRun, step: Step) -> list[Turn]:
    given: Any = step.input
    return [turn for turn in turns_of(run.steps) if given["from"] <= turn.reply.sequence <= given["to"]]


async def _written(run: TaskRun, step: Step, turns: Sequence[Turn]) -> tuple[str, ...]:
    place = working_place_of(run.claim.grant[-1].identity)
    if place is None:
        return ()
    try:
        if not run.binding_id:
            await bind_memory(run)  # so that it ends with the task
        return await run.interruptible(
            run.ports.working.put(
                await run.ports.tokens.mint(run.claim),
                path=str(place),
                texts=pages_of([turn_text(turn) for turn in turns]),
                request_id=step.id,
            )
        )
    except NotAllowed:
        _LOG.warning("working memory refused", extra={"task_id": run.claim.lease.task_id})
        return ()
    except DependencyUnavailable as error:
        raise AttemptFailed("memory_unavailable", "Memory does not answer.", error.retry_after_s) from error


def pages_of(texts: Sequence[str]) -> list[str]:
    """Give the texts put together, and cut, so that each fits into an item."""
    raw = "\n\n".join(texts).encode()
    pages: list[str] = []
    while raw and len(pages) < ITEMS_MAX:
        head = raw[:PAGE_BYTES_MAX].decode("utf-8", "ignore")
        pages.append(head)
        raw = raw[len(head.encode()) :]
    return pages
