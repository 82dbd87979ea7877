"""What comes next in a task, read from its journal alone.

The journal is the list of steps in order. Because the next action is a pure
function of it, a worker that takes a task over does exactly what the one
before it would have done, and nothing that it had finished.

Forms of the journaled JSON:
- MEMORY_READ  input {"path", "query", "top_k", "min_score"}, output {"hits": [...]}
- MODEL_CALL   input {"model", "tools": [names], "messages": count}, output {"text", "tool_calls": [{"id", "name",
  "arguments", "error"}], "finish_reason", "usage"}
- TOOL_CALL    input {"model_step", "index", "tool_call_id", "name", "skill", "arguments", "error"}, output
  {"outcome", "content"}
A failed MEMORY_READ or MODEL_CALL is done again as a new step; a failed
TOOL_CALL has its answer for the model in its output, like one that is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.canonical import JsonValue

from memoryos_harness.domain.agents import Agent, Limits, Recall
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Counters, Step


@dataclass(frozen=True, slots=True)
class DoRecall:
    """Recall from memory as `recall` says."""

    recall: Recall


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model with the whole journal so far."""


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One tool call that the model asked for in the model step at `model_step`."""

    model_step: int
    index: int
    tool_call_id: str
    name: str
    arguments: str
    arguments_error: str = ""
    """Why the arguments cannot be used, safe for the model; empty when they are one JSON object."""


@dataclass(frozen=True, slots=True)
class CallTool:
    """Call the tool that the model asked for."""

    request: ToolRequest


@dataclass(frozen=True, slots=True)
class Resume:
    """Carry a step to its end that was started and not finished."""

    step: Step


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer the user with `text`; the task has succeeded."""

    text: str


@dataclass(frozen=True, slots=True)
class Die:
    """Stop: the task is dead for this reason."""

    code: str
    message: str


Action = DoRecall | AskModel | CallTool | Resume | Respond | Die

LIMIT_STEPS: Final = "limit_steps"
LIMIT_TOKENS: Final = "limit_tokens"
LIMIT_CALLS: Final = "limit_calls"
LIMIT_SECONDS: Final = "limit_seconds"


def next_action(agent: Agent, steps: Sequence[Step], used: Counters) -> Action:
    """Give what a worker does next; limits are looked at before anything new is started."""
    for step in steps:
        if step.state is StepState.STARTED:
            return Resume(step)
    action = _after_finished(agent, steps)
    return _within(agent.limits, used, action)


def _after_finished(agent: Agent, steps: Sequence[Step]) -> Action:
    last = last_model_step(steps)
    if last is None:
        missing = _missing_recall(agent, steps)
        return AskModel() if missing is None else DoRecall(missing)
    requests = tool_requests(last)
    if not requests:
        return Respond(model_text(last))
    answered = {_position(step) for step in steps if step.kind is StepKind.TOOL_CALL}
    for request in requests:
        if (request.model_step, request.index) not in answered:
            return CallTool(request)
    return AskModel()


def _within(limits: Limits, used: Counters, action: Action) -> Action:
    if isinstance(action, Respond):
        return action
    if used.steps >= limits.steps:
        return Die(LIMIT_STEPS, f"The task reached its limit of {limits.steps} steps.")
    if isinstance(action, AskModel) and used.tokens >= limits.tokens:
        return Die(LIMIT_TOKENS, f"The task reached its limit of {limits.tokens} tokens.")
    if isinstance(action, CallTool) and used.calls >= limits.calls:
        return Die(LIMIT_CALLS, f"The task reached its limit of {limits.calls} tool calls.")
    return action


def last_model_step(steps: Sequence[Step]) -> Step | None:
    """Give the newest finished model call, or None before the first."""
    done = [s for s in steps if s.kind is StepKind.MODEL_CALL and s.state is StepState.DONE]
    return done[-1] if done else None


def _missing_recall(agent: Agent, steps: Sequence[Step]) -> Recall | None:
    done = sum(1 for s in steps if s.kind is StepKind.MEMORY_READ and s.state is StepState.DONE)
    recalls = agent.memory.recall
    return recalls[done] if done < len(recalls) else None


def tool_requests(model_step: Step) -> tuple[ToolRequest, ...]:
    """Give the tool calls that the model asked for in this step, in its order."""
    calls = _object(model_step.output).get("tool_calls") or []
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


def model_text(model_step: Step) -> str:
    """Give what the model said in this step."""
    return str(_object(model_step.output).get("text") or "")


def _position(tool_step: Step) -> tuple[int, int]:
    given = _object(tool_step.input)
    return int(given["model_step"]), int(given["index"])


def tool_request_of(tool_step: Step) -> ToolRequest:
    """Give the request that a journaled tool step carries out."""
    given = _object(tool_step.input)
    return ToolRequest(
        model_step=int(given["model_step"]),
        index=int(given["index"]),
        tool_call_id=str(given["tool_call_id"]),
        name=str(given["name"]),
        arguments=str(given["arguments"]),
        arguments_error=str(given.get("error") or ""),
    )


def tool_input(request: ToolRequest, skill: str) -> JsonValue:
    """Give the journaled input of the step that carries `request` out."""
    return {
        "model_step": request.model_step,
        "index": request.index,
        "tool_call_id": request.tool_call_id,
        "name": request.name,
        "skill": skill,
        "arguments": request.arguments,
        "error": request.arguments_error,
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
