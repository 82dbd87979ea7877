"""One reply of the model, asked for a bounded number of times within an attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from memoryos_core.canonical import canonical_json
from memoryos_models.errors import ModelContextExceeded, ModelRejected, ModelReplyInvalid, ModelUnavailable
from memoryos_models.ports import ChatReply, ChatRequest, FinishReason

from memoryos_harness.domain.actions import Purpose
from memoryos_harness.domain.journal_forms import MODEL_REPLY_INVALID, purpose_of, reply_output
from memoryos_harness.domain.tasks import Step
from memoryos_harness.domain.window import CONTEXT_EXCEEDED
from memoryos_harness.operations.task_run import AttemptFailed, TaskDies, TaskRun

REPLY_BYTES_MAX: Final = 1_048_576
"""Largest reply that is journaled, its tool calls included."""
_UNUSABLE: Final = {
    FinishReason.LENGTH: ("model_truncated", "The model's answer was cut off."),
    FinishReason.CONTENT_FILTER: ("model_content_filter", "The model's endpoint withheld the answer."),
}


async def complete_chat(run: TaskRun, step: Step, request: ChatRequest) -> ChatReply | None:
    """Give a usable reply; None when the conversation is too long for the endpoint, and the step says so.

    A reply that is not whole, or an endpoint that stays silent, fails the
    attempt, at once where the endpoint asks for a wait longer than a worker
    waits in place; a refusal of the endpoint kills the task.
    """
    failure: AttemptFailed | None = None
    for number in range(run.settings.tries):
        if failure is not None:
            pause_s = failure.retry_after_s or run.settings.backoff_s(number - 1)
            if pause_s > run.settings.wait_in_place_s:
                break
            await run.rest(pause_s)
        deadline_s = min(run.settings.model_deadline_s, run.seconds_left)
        if deadline_s <= 0 or (run.stop.is_set() and failure is not None):
            break
        try:
            reply = await run.interruptible(run.ports.model.complete(replace(request, deadline_s=deadline_s)))
        except ModelUnavailable as error:
            failure = AttemptFailed("model_unavailable", "The model does not answer.", error.retry_after_s)
        except ModelReplyInvalid:
            failure = AttemptFailed(MODEL_REPLY_INVALID, "The model's answer was not whole.")
        except ModelContextExceeded:
            await run.fail_step(step, CONTEXT_EXCEEDED)
            return None
        except ModelRejected:
            await run.fail_step(step, "model_rejected")
            raise TaskDies("model_rejected", "The model's endpoint refused the request.") from None
        else:
            unusable = _unusable(step, reply)
            if unusable is None:
                return reply
            failure = AttemptFailed(*unusable)
    failure = failure or AttemptFailed("model_unavailable", "The model had no time left to answer.")
    await run.fail_step(step, failure.code)
    raise failure


def _unusable(step: Step, reply: ChatReply) -> tuple[str, str] | None:
    if reply.finish_reason in _UNUSABLE:
        return _UNUSABLE[reply.finish_reason]
    if reply.tool_calls and purpose_of(step) is not Purpose.ACT:
        return MODEL_REPLY_INVALID, "The model asked for a tool where it was offered none."
    if not reply.tool_calls and not reply.content.strip():
        return "model_reply_empty", "The model answered nothing."
    if len(canonical_json(reply_output(reply))) > REPLY_BYTES_MAX:
        return "model_reply_too_large", f"The model's answer has more than {REPLY_BYTES_MAX} bytes."
    return None
