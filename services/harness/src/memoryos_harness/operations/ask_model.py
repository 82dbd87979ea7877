"""The model step: the next message of the conversation, asked for once and journaled."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from memoryos_core.canonical import JsonValue, canonical_json
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import DependencyUnavailable
from memoryos_core.scope import Scope
from memoryos_models.errors import ModelRejected, ModelReplyInvalid, ModelUnavailable
from memoryos_models.ports import ChatReply, ChatRequest, FinishReason, ToolSpec

from memoryos_harness.domain.agents import DEFAULT_MODEL
from memoryos_harness.domain.prompt import HISTORY_MESSAGES_MAX, conversation
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step, StepResult
from memoryos_harness.domain.tool_names import ToolNamesCollide, skills_by_tool_name, tool_name
from memoryos_harness.operations.task_run import AttemptFailed, TaskDies, TaskRun
from memoryos_harness.ports import Skill

REPLY_BYTES_MAX: Final = 1_048_576
"""Largest reply that is journaled, its tool calls included."""
_UNUSABLE: Final = {
    FinishReason.LENGTH: ("model_truncated", "The model's answer was cut off."),
    FinishReason.CONTENT_FILTER: ("model_content_filter", "The model's endpoint withheld the answer."),
}


async def ask_model(run: TaskRun, *, started: Step | None = None) -> None:
    """Journal the model's next message, or carry a started step to its end.

    A reply that is not whole, or an endpoint that stays silent after a bounded
    number of tries, fails the attempt; a refusal of the endpoint kills the task.
    """
    lease = run.claim.lease
    skills = await _offered(run)
    request = await _request(run, skills)
    if started is None:
        crash_point("harness.step.before_journal")
        given: JsonValue = {
            "model": run.claim.agent.model,
            "tools": [skill.name for skill in skills],
            "messages": len(request.messages),
        }
        step = await run.ports.journal.begin(lease, kind=StepKind.MODEL_CALL, target=run.claim.agent.model, given=given)
    else:
        step = await run.ports.journal.resume(lease, started)
        request = _same_tools(request, step)
    run.started(step)
    crash_point("harness.step.after_started")
    reply = await _complete(run, step, request)
    crash_point("harness.step.after_effect")
    result = StepResult(
        state=StepState.DONE,
        output=_journaled(reply),
        token_count=reply.usage.input_tokens + reply.usage.output_tokens,
    )
    await run.finish(step, result, responding=not reply.tool_calls)
    crash_point("harness.step.after_done")


async def _offered(run: TaskRun) -> tuple[Skill, ...]:
    """Give the agent's skills that policy lets this task think of; none at all is an error, not an empty run."""
    wanted = frozenset(run.claim.agent.skills)
    if not wanted:
        return ()
    try:
        listed = await run.interruptible(run.ports.tools.list_skills(await run.ports.tokens.mint(run.claim)))
    except DependencyUnavailable as error:
        raise AttemptFailed("tools_unavailable", "The tool-gateway does not answer.", error.retry_after_s) from error
    offered = tuple(skill for skill in listed if skill.name in wanted)
    if not offered:
        raise TaskDies("no_skills", "None of the agent's skills is open to this task.")
    return offered


async def _request(run: TaskRun, skills: tuple[Skill, ...]) -> ChatRequest:
    claim = run.claim
    history = await run.ports.sessions.history(
        Scope.of(claim.grant[-1].identity),
        claim.session_id,
        before_sequence=claim.question_sequence,
        limit=HISTORY_MESSAGES_MAX,
    )
    try:
        skills_by_tool_name(skill.name for skill in skills)
    except ToolNamesCollide as error:
        raise TaskDies("skill_names_collide", str(error)) from None
    return ChatRequest(
        messages=conversation(claim.agent, history, claim.question, run.steps),
        tools=tuple(
            ToolSpec(name=tool_name(skill.name), description=skill.description, parameters=skill.parameters)
            for skill in skills
        ),
        model=None if claim.agent.model == DEFAULT_MODEL else claim.agent.model,
    )


def _same_tools(request: ChatRequest, step: Step) -> ChatRequest:
    """Give the request with no tool beyond those that the step was journaled with: calls are checked against them."""
    given: Any = step.input
    names = {tool_name(skill) for skill in given["tools"]}
    return ChatRequest(
        messages=request.messages, tools=tuple(t for t in request.tools if t.name in names), model=request.model
    )


async def _complete(run: TaskRun, step: Step, request: ChatRequest) -> ChatReply:
    failure: AttemptFailed | None = None
    for attempt in range(run.settings.tries):
        if failure is not None:
            await run.interruptible(asyncio.sleep(failure.retry_after_s or run.settings.backoff_s(attempt - 1)))
        deadline_s = min(run.settings.model_deadline_s, run.seconds_left)
        if deadline_s <= 0:
            break
        timed = ChatRequest(messages=request.messages, tools=request.tools, model=request.model, deadline_s=deadline_s)
        try:
            reply = await run.interruptible(run.ports.model.complete(timed))
        except ModelUnavailable as error:
            failure = AttemptFailed("model_unavailable", "The model does not answer.", error.retry_after_s)
        except ModelReplyInvalid:
            failure = AttemptFailed("model_reply_invalid", "The model's answer was not whole.")
        except ModelRejected:
            await run.fail_step(step, "model_rejected")
            raise TaskDies("model_rejected", "The model's endpoint refused the request.") from None
        else:
            unusable = _unusable(reply)
            if unusable is None:
                return reply
            failure = AttemptFailed(*unusable)
    failure = failure or AttemptFailed("model_unavailable", "The model had no time left to answer.")
    await run.fail_step(step, failure.code)
    raise failure


def _unusable(reply: ChatReply) -> tuple[str, str] | None:
    if reply.finish_reason in _UNUSABLE:
        return _UNUSABLE[reply.finish_reason]
    if not reply.tool_calls and not reply.content.strip():
        return "model_reply_empty", "The model answered nothing."
    if len(canonical_json(_journaled(reply))) > REPLY_BYTES_MAX:
        return "model_reply_too_large", f"The model's answer has more than {REPLY_BYTES_MAX} bytes."
    return None


def _journaled(reply: ChatReply) -> JsonValue:
    return {
        "text": _text(reply.content),
        "tool_calls": [
            {
                "id": _text(call.id),
                "name": _text(call.name),
                "arguments": _text(call.arguments_json),
                "error": call.arguments_error or "",
            }
            for call in reply.tool_calls
        ],
        "finish_reason": str(reply.finish_reason),
        "usage": {"input": reply.usage.input_tokens, "output": reply.usage.output_tokens},
    }


def _text(text: str) -> str:
    """Give text that messages may hold: endpoints send lone surrogates and NUL as JSON escapes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
