"""The recall step: what memory knows about the question, journaled with the ids of its items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memoryos_core.canonical import JsonValue
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import DependencyUnavailable, NotAllowed
from memoryos_telemetry.names import HITS, STEP_ID, TASK_ID
from memoryos_telemetry.telemetry import tracer

from memoryos_harness.domain.agents import Recall, expand_paths
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step, StepResult
from memoryos_harness.operations.task_run import AttemptFailed, TaskDies, TaskRun
from memoryos_harness.ports import RecalledItem

QUERY_BYTES_MAX: Final = 8192
"""What MemoryFS takes; a longer question is recalled by its beginning."""
ITEM_BYTES_MAX: Final = 16_384
"""Longest text of one item that a model is shown; the rest is cut off and said so."""
RECALLED_BYTES_MAX: Final = 131_072
"""Text of all items of one recall; the best come first, what does not fit is left out."""
RECALL: Final = "recall"
_TRACER = tracer("memoryos.harness")


async def recall_for_model(run: TaskRun, *, recall: Recall | None = None, started: Step | None = None) -> None:
    """Journal the items that `recall` asks for, or carry a started step to its end.

    Fails the attempt when MemoryFS does not answer; kills the task when its
    token does not reach the path.
    """
    lease = run.claim.lease
    if started is None:
        assert recall is not None
        crash_point("harness.step.before_journal")
        step = await run.ports.journal.begin(lease, kind=StepKind.MEMORY_READ, target=RECALL, given=_given(run, recall))
    else:
        step = await run.ports.journal.resume(lease, started)
    run.started(step)
    crash_point("harness.step.after_started")
    with _TRACER.span(RECALL, attributes={TASK_ID: lease.task_id, STEP_ID: step.id}) as span:
        items = fitting(await _ask(run, step))
        span.set_attribute(HITS, len(items))
    crash_point("harness.step.after_effect")
    result = StepResult(
        state=StepState.DONE,
        output={"hits": [shown_item(item) for item in items]},
        item_ids=tuple(item.id for item in items),
    )
    await run.finish(step, result)
    crash_point("harness.step.after_done")


def _given(run: TaskRun, recall: Recall) -> JsonValue:
    (path,) = expand_paths([recall.path], tenant=run.claim.lease.tenant, user=run.claim.lease.user)
    query = run.claim.question.encode()[:QUERY_BYTES_MAX].decode("utf-8", "ignore")
    return {"path": str(path), "query": query, "top_k": recall.top_k, "min_score": recall.min_score}


async def _ask(run: TaskRun, step: Step) -> tuple[RecalledItem, ...]:
    given: Any = step.input
    try:
        return await run.interruptible(
            run.ports.memory.recall(
                await run.ports.tokens.mint(run.claim),
                path=given["path"],
                query=given["query"],
                top_k=given["top_k"],
                min_score=given["min_score"],
            )
        )
    except NotAllowed:
        await run.fail_step(step, "memory_not_allowed")
        raise TaskDies("memory_not_allowed", "The task may not read the memory that its agent is bound to.") from None
    except DependencyUnavailable as error:
        await run.fail_step(step, "memory_unavailable")
        raise AttemptFailed("memory_unavailable", "Memory does not answer.", error.retry_after_s) from error


def fitting(items: Sequence[RecalledItem]) -> tuple[RecalledItem, ...]:
    """Give the best items whose shown text fits into RECALLED_BYTES_MAX."""
    kept: list[RecalledItem] = []
    size_bytes = 0
    for item in items:
        size_bytes += min(len(item.content.encode()), ITEM_BYTES_MAX)
        if size_bytes > RECALLED_BYTES_MAX:
            break
        kept.append(item)
    return tuple(kept)


def shown_item(item: RecalledItem) -> JsonValue:
    """Give the data that a model is shown of an item: its id is the citation."""
    raw = item.content.encode()
    shown: dict[str, Any] = {
        "id": item.id,
        "content": raw[:ITEM_BYTES_MAX].decode("utf-8", "ignore"),
        "score": round(item.score, 4),
        "valid_from": item.valid_from,
        "trusted": item.trusted,
    }
    return shown if len(raw) <= ITEM_BYTES_MAX else {**shown, "cut_off_bytes": len(raw) - ITEM_BYTES_MAX}
