"""The journaled JSON of steps, written and read.

- MEMORY_READ  input {"path", "query", "top_k", "min_score"}, output {"hits": [...]}; of conversations (target
  "sessions") input {"query", "top_k", "min_score", "shown_from"}
- MODEL_CALL   input {"purpose", "model", "tools": [names], "repeatable": [names], "messages": count, "say"?},
  output {"text", "tool_calls": [{"id", "name", "arguments", "error"}], "finish_reason", "usage", "model",
  "structured"?, "problem"?}: `structured` is the JSON that was asked for, `problem` what is wrong with what came
  instead
- TOOL_CALL    input {"model_step", "index", "tool_call_id", "name", "skill", "arguments", "arguments_digest",
  "error", "try", "because"?, "of"?, "wait_s"?, "stopped"?}, output {"outcome", "content", "code"?, "fallback"?}
- HAND_OFF     input {"model_step", "index", "tool_call_id", "name", "arguments", "skill", "code", "message"}, output
  {"note"}
- CHILD_TASK   input {"model_step", "index", "tool_call_id", "name", "agent", "arguments", "arguments_digest",
  "error", "seconds"}, output {"outcome", "content", "code"?}
- PAGE_OUT     input {"from", "to"}, output {"item_id", "tokens"}
A failed step of another kind than TOOL_CALL has output {"error"}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoryos_core.canonical import JsonValue
from memoryos_models.ports import ChatReply

from memoryos_harness.domain.actions import Because, HandOff, Purpose, Stop, ToolRequest, Try
from memoryos_harness.domain.arguments import arguments_digest
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step
from memoryos_harness.domain.tool_names import skills_by_tool_name

ANSWERS: Final = frozenset({StepKind.TOOL_CALL, StepKind.CHILD_TASK, StepKind.HAND_OFF})
"""Steps whose outcome is the answer of a call that the model asked for."""
MODEL_REPLY_INVALID: Final = "model_reply_invalid"
"""Error of a model call whose reply is of no use."""
RECALL_SESSIONS: Final = "sessions"
"""Target of the step that recalls the user's own conversations."""


def as_object(value: Any) -> Mapping[str, Any]:
    """Give a JSON object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def replies(steps: Sequence[Step]) -> list[Step]:
    """Give the finished model calls."""
    return [s for s in steps if s.kind is StepKind.MODEL_CALL and s.state is StepState.DONE]


def last_model_step(steps: Sequence[Step]) -> Step | None:
    """Give the newest finished model call, or None before the first."""
    done = replies(steps)
    return done[-1] if done else None


def purpose_of(model_step: Step) -> Purpose:
    """Give what the model was asked for in this step."""
    return Purpose(as_object(model_step.input).get("purpose") or Purpose.ACT)


def said_to_model(model_step: Step) -> str:
    """Give what the harness said to the model in this step, beside the conversation."""
    return str(as_object(model_step.input).get("say") or "")


def tools_of(model_step: Step) -> tuple[str, ...]:
    """Give the skills that the model was offered in this step."""
    return tuple(str(name) for name in as_object(model_step.input).get("tools") or ())


def may_repeat(model_step: Step, skill: str) -> bool:
    """Tell whether a call of a skill that this step was offered may be made again although it may have happened."""
    return skill in (as_object(model_step.input).get("repeatable") or ())


def model_text(model_step: Step) -> str:
    """Give what the model said in this step."""
    return str(as_object(model_step.output).get("text") or "")


def problem_of(model_step: Step) -> str:
    """Give what is wrong with the JSON that was asked for, "" when nothing is."""
    return str(as_object(model_step.output).get("problem") or "")


def structured_of(model_step: Step) -> Any:
    """Give the JSON that was asked for, None when it did not come."""
    return as_object(model_step.output).get("structured")


def reply_output(reply: ChatReply) -> dict[str, Any]:
    """Give the journaled output of a model call, without what was read of its JSON."""
    output: dict[str, Any] = {
        "text": _text(reply.content),
        "tool_calls": [
            {"id": call_id, "name": _text(call.name), "arguments": _text(call.arguments_json),
             "error": call.arguments_error or ""}
            for call_id, call in zip(_ids(reply), reply.tool_calls, strict=True)
        ],
        "finish_reason": str(reply.finish_reason),
        "usage": {"input": reply.usage.input_tokens, "output": reply.usage.output_tokens},
        "model": _text(reply.model),
    }  # fmt: skip
    if reply.endpoint:
        output["endpoint"] = _text(reply.endpoint)
    if reply.failed_tries:
        output["failed_tries"] = [
            {"endpoint": _text(tried.endpoint), "model": _text(tried.model), "reason": tried.reason}
            for tried in reply.failed_tries
        ]
    return output


def _ids(reply: ChatReply) -> list[str]:
    """Give the ids of the calls, each once: some models give every call of a reply the same one."""
    found: list[str] = []
    for index, call in enumerate(reply.tool_calls):
        call_id = _text(call.id)
        found.append(f"{call_id}_{index}" if call_id in found else call_id)
    return found


def _text(text: str) -> str:
    """Give text that messages may hold: endpoints send lone surrogates and NUL as JSON escapes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def tool_requests(model_step: Step) -> tuple[ToolRequest, ...]:
    """Give the tool calls that the model asked for in this step, in its order."""
    calls = as_object(model_step.output).get("tool_calls") or []
    return tuple(
        ToolRequest(
            model_step=model_step.sequence,
            index=index,
            tool_call_id=str(call["id"]),
            name=str(call["name"]),
            arguments=str(call["arguments"]),
            arguments_error=str(call.get("error") or ""),
        )
        for index, call in enumerate(calls)
    )


def skill_asked_for(steps: Sequence[Step], request: ToolRequest) -> str:
    """Give the skill that the model means, or "" when the step that asked was not offered it."""
    asked = next(step for step in steps if step.sequence == request.model_step)
    return skills_by_tool_name(tools_of(asked)).get(request.name, "")


def position_of(answer: Step) -> tuple[int, int]:
    """Give the place of the call that a step answers: the model step, and which of its calls."""
    given = as_object(answer.input)
    return int(given["model_step"]), int(given["index"])


def tool_request_of(answer: Step) -> ToolRequest:
    """Give the request that a journaled step carries out."""
    given = as_object(answer.input)
    return ToolRequest(
        model_step=int(given["model_step"]),
        index=int(given["index"]),
        tool_call_id=str(given["tool_call_id"]),
        name=str(given["name"]),
        arguments=str(given["arguments"]),
        arguments_error=str(given.get("error") or ""),
    )


def skill_of(tool_step: Step) -> str:
    """Give the skill that a step calls, "" for none."""
    return str(as_object(tool_step.input).get("skill") or "")


def try_number(tool_step: Step) -> int:
    """Give the number of a try, from 1."""
    return int(as_object(tool_step.input).get("try") or 1)


def stop_of(tool_step: Step) -> Stop | None:
    """Give why the step makes no call and only tells the model so, None when it makes one."""
    stopped = as_object(tool_step.input).get("stopped")
    if stopped is True:  # as it was journaled when there was one reason
        return Stop.SAME_FAILURES
    return Stop(stopped) if stopped else None


def tried_before(tool_step: Step) -> int:
    """Give the sequence of the step that this one follows on, 0 for none."""
    return int(as_object(tool_step.input).get("of") or 0)


def code_of(tool_step: Step) -> str:
    """Give the code of a call that failed, "" where there is none."""
    return str(as_object(tool_step.output).get("code") or "")


def fell_back(tool_step: Step) -> bool:
    """Tell whether the skill's fallback answered instead of the skill."""
    return bool(as_object(tool_step.output).get("fallback"))


def tool_input(request: ToolRequest, attempt: Try) -> JsonValue:
    """Give the journaled input of the step that carries one try of `request` out."""
    given: dict[str, Any] = {
        "model_step": request.model_step,
        "index": request.index,
        "tool_call_id": request.tool_call_id,
        "name": request.name,
        "skill": attempt.skill,
        "arguments": request.arguments,
        "arguments_digest": arguments_digest(request.arguments),
        "error": request.arguments_error,
        "try": attempt.number,
    }
    if attempt.because is not None:
        given |= {"because": str(attempt.because), "of": attempt.of, "wait_s": attempt.wait_s}
    if attempt.stop is not None:
        given |= {"stopped": str(attempt.stop), "of": attempt.of}
    return given


def digest_in(call: Step) -> str:
    """Give the digest of a call's arguments; of a journal that is older than digests, it is made now."""
    given = as_object(call.input)
    return str(given.get("arguments_digest") or arguments_digest(str(given["arguments"])))


def because_of(tool_step: Step) -> Because | None:
    """Give why a try is made, None for the first."""
    because = as_object(tool_step.input).get("because")
    return Because(because) if because else None


def hand_off_input(asked: HandOff) -> JsonValue:
    """Give the journaled input of the step that hands a call over to a person."""
    request = asked.request
    return {
        "model_step": request.model_step,
        "index": request.index,
        "tool_call_id": request.tool_call_id,
        "name": request.name,
        "arguments": request.arguments,
        "skill": asked.skill,
        "code": asked.code,
        "message": asked.message,
    }
