"""The recall step over conversations: what the user said and was told before, journaled with the ids of messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from memoryos_core.canonical import JsonValue
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import DependencyUnavailable
from memoryos_core.scope import Scope
from memoryos_telemetry.names import HITS, STEP_ID, TASK_ID
from memoryos_telemetry.telemetry import tracer

from memoryos_harness.domain.journal_forms import RECALL_SESSIONS
from memoryos_harness.domain.pages import page_length
from memoryos_harness.domain.sessions import Look, MessageHit, MessageRole
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step, StepResult
from memoryos_harness.operations.task_run import AttemptFailed, TaskRun

TOP_K: Final = 6
MIN_SCORE: Final = 0.05
"""Below so small a share a message is about something else. Words that only ask ("did I ask this before") weigh much,
for they stand in no other message: what shares all the rest has some tenth where the user has said little."""
QUERY_BYTES_MAX: Final = 8192
MESSAGE_BYTES_MAX: Final = 4_096
"""Longest text of one message that a model is shown; the rest is cut off and said so."""
RECALLED_BYTES_MAX: Final = 32_768
_TRACER: Final = tracer("memoryos.harness")


async def recall_sessions(run: TaskRun, *, started: Step | None = None) -> None:
    """Journal what the user's own conversations hold of the question, or carry a started step to its end.

    What the sessions of the hits have seen, the task's session has seen before
    the model is shown them. Fails the attempt when the store does not answer.
    """
    lease = run.claim.lease
    if started is None:
        crash_point("harness.step.before_journal")
        given = _given(run)
        step = await run.ports.journal.begin(lease, kind=StepKind.MEMORY_READ, target=RECALL_SESSIONS, given=given)
    else:
        step = await run.ports.journal.resume(lease, started)
    run.started(step)
    crash_point("harness.step.after_started")
    with _TRACER.span(RECALL_SESSIONS, attributes={TASK_ID: lease.task_id, STEP_ID: step.id}) as span:
        hits = await _ask(run, step)
        hits = hits[: page_length([_size(hit) for hit in hits], RECALLED_BYTES_MAX)]
        span.set_attribute(HITS, len(hits))
    crash_point("harness.step.after_effect")
    result = StepResult(
        state=StepState.DONE,
        output={"hits": [_shown(hit) for hit in hits]},
        item_ids=tuple(dict.fromkeys(name for hit in hits for name in (hit.message.id, hit.reply_id) if name)),
    )
    await run.finish(step, result)
    crash_point("harness.step.after_done")


def _given(run: TaskRun) -> JsonValue:
    """Look for the question and what the user said before it ("this"), but not among the turns that are shown."""
    said = [message.content for message in run.history if message.role is MessageRole.USER]
    query = "\n".join((*said[-1:], run.claim.question)).encode()[-QUERY_BYTES_MAX:].decode("utf-8", "ignore")
    shown_from = run.claim.question_sequence - len(run.history)
    return {"query": query, "top_k": TOP_K, "min_score": MIN_SCORE, "shown_from": shown_from}


async def _ask(run: TaskRun, step: Step) -> tuple[MessageHit, ...]:
    given: Any = step.input
    claim = run.claim
    look = Look(
        query=given["query"],
        top_k=given["top_k"],
        min_score=given["min_score"],
        replies=True,
        shown_session=claim.session_id,
        shown_from=given["shown_from"],
    )
    scope = replace(Scope.of(claim.grant[-1].identity), session_id=claim.session_id, task_id=claim.lease.task_id)
    try:
        return await run.interruptible(run.ports.search.search(scope, look))
    except DependencyUnavailable as error:
        await run.fail_step(step, "sessions_unavailable")
        raise AttemptFailed("sessions_unavailable", "The store does not answer.", error.retry_after_s) from error


def _shown(hit: MessageHit) -> JsonValue:
    """Give the data that a model is shown of a message: its id and its session's are the citation."""
    shown: dict[str, Any] = {
        "id": hit.message.id,
        "session_id": hit.session_id,
        "said_by": str(hit.message.role).lower(),
        "content": _cut(hit.message.content),
        "time": hit.message.create_time.isoformat(timespec="seconds"),
        "score": round(hit.score, 4),
    }
    return {**shown, "answer": {"id": hit.reply_id, "content": _cut(hit.reply)}} if hit.reply_id else shown


def _cut(text: str) -> str:
    raw = text.encode()
    if len(raw) <= MESSAGE_BYTES_MAX:
        return text
    return f"{raw[:MESSAGE_BYTES_MAX].decode('utf-8', 'ignore')} … ({len(raw) - MESSAGE_BYTES_MAX} bytes cut off)"


def _size(hit: MessageHit) -> int:
    return sum(min(len(text.encode()), MESSAGE_BYTES_MAX) for text in (hit.message.content, hit.reply))
