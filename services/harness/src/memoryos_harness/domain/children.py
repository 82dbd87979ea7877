"""Sub-agents as the model sees them, and what a child task may use up: pure, no I/O.

A sub-agent NAME is offered as the tool `agent__NAME`, in the journal
`agent.NAME`. All calls of sub-agents in one reply run at the same time; what
the parent has left of tokens and calls is shared out evenly among them, so that
together they never use more. Time is not shared out, for they run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.canonical import JsonValue, parse_json
from memoryos_core.errors import InvalidField

from memoryos_harness.domain.actions import ToolRequest
from memoryos_harness.domain.agents import Agent, Limits
from memoryos_harness.domain.arguments import arguments_digest
from memoryos_harness.domain.journal_forms import position_of, skill_asked_for, tool_requests
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind, tool_result
from memoryos_harness.domain.states import StepKind, TaskState
from memoryos_harness.domain.tasks import Counters, Step, StepResult

PREFIX: Final = "agent."
TASK_BYTES_MAX: Final = 32_768
PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "minLength": 1,
            "description": "What it is to do, with everything that it needs to know: it sees nothing else.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}
_ARGUMENTS: Final = 'The arguments are {"task": text}, the text not empty and within 32768 bytes.'
_ENDED: Final = {TaskState.CANCELLED: "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedChild:
    """What became of a child task, as its row says."""

    state: TaskState
    output: str
    output_is_json: bool
    error_code: str
    error_message: str
    token_count: int
    call_count: int


def child_skill(name: str) -> str:
    """Give what a sub-agent is called among the skills."""
    return PREFIX + name


def child_of(agent: Agent, skill: str) -> str:
    """Give the sub-agent that a name among the skills stands for, "" for a skill."""
    name = skill.removeprefix(PREFIX)
    return name if skill.startswith(PREFIX) and name in agent.agents and skill not in agent.skills else ""


def thinkable(agent: Agent) -> tuple[str, ...]:
    """Give everything that an agent may think of calling: its skills, and its sub-agents among them."""
    return (*agent.skills, *(child_skill(name) for name in agent.agents))


def may_start(agent: Agent, steps: Sequence[Step]) -> int:
    """Give how many sub-agents the task may still start."""
    started = sum(1 for step in steps if step.child_task_id)
    return max(0, agent.limits.fan_out - started) if agent.limits.depth > 0 else 0


def child_requests(agent: Agent, steps: Sequence[Step], reply: Step) -> tuple[tuple[ToolRequest, str], ...]:
    """Give the calls of sub-agents in a reply, in its order, and the sub-agent of each."""
    asked = [(request, child_of(agent, skill_asked_for(steps, request))) for request in tool_requests(reply)]
    return tuple((request, name) for request, name in asked if name)


def unanswered(steps: Sequence[Step], requests: Sequence[tuple[ToolRequest, str]]) -> tuple[ToolRequest, ...]:
    """Give those of `requests` that no step carries out."""
    taken = {position_of(step) for step in steps if step.kind is StepKind.CHILD_TASK}
    return tuple(request for request, _ in requests if (request.model_step, request.index) not in taken)


def task_of(request: ToolRequest) -> str | CallOutcome:
    """Give what the sub-agent is to do, or what the model is told of arguments that do not say it."""
    wrong = CallOutcome(kind=CallOutcomeKind.INVALID, message=_ARGUMENTS)
    if request.arguments_error:
        return CallOutcome(kind=CallOutcomeKind.INVALID, message=f"The call was not made: {request.arguments_error}.")
    try:
        arguments = parse_json(request.arguments, max_bytes=4 * TASK_BYTES_MAX)
    except InvalidField:
        return wrong
    if not isinstance(arguments, dict) or set(arguments) != {"task"} or not isinstance(arguments["task"], str):
        return wrong
    task = arguments["task"]
    return task if task.strip() and len(task.encode()) <= TASK_BYTES_MAX else wrong


def child_limits(parent: Limits, used: Counters, own: Limits, *, seconds_left: float, among: int) -> Limits | None:
    """Give what each of `among` children may use up: never more than its file says, nor than the parent has left.

    None when the parent has nothing left to give. Depth goes down by one with each level.
    """
    tokens, calls = (parent.tokens - used.tokens) // among, max(0, parent.calls - used.calls) // among
    seconds = int(seconds_left)
    if tokens < 1 or seconds < 1:
        return None
    return own.model_copy(
        update={
            "tokens": min(own.tokens, tokens),
            "calls": min(own.calls, calls),
            "seconds": min(own.seconds, seconds),
            "depth": min(own.depth, parent.depth - 1),
        }
    )


def child_input(request: ToolRequest, agent: str, *, seconds: int) -> JsonValue:
    """Give the journaled input of the step that a sub-agent's work is."""
    return {
        "model_step": request.model_step,
        "index": request.index,
        "tool_call_id": request.tool_call_id,
        "name": request.name,
        "agent": agent,
        "arguments": request.arguments,
        "arguments_digest": arguments_digest(request.arguments),
        "error": request.arguments_error,
        "seconds": seconds,
    }


def refused(outcome: CallOutcome) -> StepResult:
    """Give the journal entry of a call of a sub-agent that was not started."""
    made = tool_result(outcome)
    return StepResult(state=made.state, output=made.output)


def child_result(child: EndedChild) -> StepResult:
    """Give the journal entry of a child task that has ended: its answer by value, or why there is none."""
    if child.state is TaskState.SUCCEEDED:
        outcome = CallOutcome(kind=CallOutcomeKind.SUCCEEDED, result=_answer(child))
    else:
        code = _ENDED.get(child.state) or child.error_code or "failed"
        message = child.error_message or "The sub-agent was stopped."
        outcome = CallOutcome(kind=CallOutcomeKind.FAILED, code=code, message=message)
    made = tool_result(outcome)
    return StepResult(state=made.state, output=made.output, token_count=child.token_count, call_count=child.call_count)


def _answer(child: EndedChild) -> JsonValue:
    if not child.output_is_json:
        return child.output
    try:
        return parse_json(child.output, max_bytes=4 * 1024 * 1024)
    except InvalidField:
        return child.output
