"""Calls that the model asks for again although it has their answer: they are not made, and it is told the answer.

A call that changes something, and is not idempotent, is made once in a task:
models repeat themselves, and a second refund of the same amount for the same
order is nearly always that. A call that reads, or is idempotent, may be made
again; but not when it was the last thing asked for, several times in a row,
with the same answer. The agent's file names the skills for which this does not
hold (`may_repeat`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_harness.domain.actions import Stop, ToolRequest
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.journal_forms import (
    MODEL_REPLY_INVALID,
    as_object,
    code_of,
    fell_back,
    may_repeat,
    position_of,
    replies,
    skill_of,
    stop_of,
    tool_requests,
)
from memoryos_harness.domain.outcomes import ARGUMENTS_BYTES_MAX, told_content
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step

RESULT_INVALID: Final = "result_invalid"
SAME_ANSWERS: Final = "same_answers"


def answered_before(agent: Agent, steps: Sequence[Step], request: ToolRequest, skill: str) -> Step | None:
    """Give the step that has the answer of a call which is not made again for it, None when it is to be made."""
    done = [step for step in equal_calls(steps, request, skill) if _is_done(step)]
    if not done or skill in agent.may_repeat:
        return None
    asking = next(step for step in steps if step.sequence == request.model_step)
    if not may_repeat(asking, skill) or _in_a_row(steps, request, done) >= agent.same_answers:
        return done[-1]
    return None


def only_repeats(steps: Sequence[Step], reply: Step) -> bool:
    """Tell whether all that the model asked for in this reply it has the answer of."""
    answers = [step for step in steps if step.kind is StepKind.TOOL_CALL and position_of(step)[0] == reply.sequence]
    requests = {(request.model_step, request.index) for request in tool_requests(reply)}
    return bool(requests) and requests == {position_of(s) for s in answers if stop_of(s) is Stop.REPEATED}


def refusals_to_answer(steps: Sequence[Step], reply: Step) -> int:
    """Count the model calls since this reply that gave nothing usable, such as a call of a tool that is not offered."""
    return sum(
        step.kind is StepKind.MODEL_CALL and as_object(step.output).get("error") == MODEL_REPLY_INVALID
        for step in steps
        if step.sequence > reply.sequence
    )


def equal_calls(steps: Sequence[Step], request: ToolRequest, skill: str) -> list[Step]:
    """Give the ended calls of the same skill with the same arguments, however these are written."""
    wanted = _canonical(request.arguments)
    found = []
    for step in ended_calls(steps):
        made = as_object(step.input)
        same_target = skill_of(step) == skill if skill else not skill_of(step) and made["name"] == request.name
        if not same_target:
            continue
        arguments = str(made["arguments"])
        if arguments == request.arguments or _canonical(arguments) == wanted:
            found.append(step)
    return found


def ended_calls(steps: Sequence[Step]) -> list[Step]:
    """Give the calls that are not under way."""
    return [step for step in steps if step.kind is StepKind.TOOL_CALL and step.state is not StepState.STARTED]


def _is_done(step: Step) -> bool:
    """Tell whether the skill itself answered, with something that can be read."""
    return step.state is StepState.DONE and not fell_back(step) and code_of(step) != RESULT_INVALID


def _in_a_row(steps: Sequence[Step], request: ToolRequest, done: Sequence[Step]) -> int:
    """Count the replies just before this one that asked for the call and got one and the same answer."""
    answers = {position_of(step)[0]: told_content(step.output) for step in done}
    newest = told_content(done[-1].output)
    count = 0
    for reply in reversed([step for step in replies(steps) if step.sequence < request.model_step]):
        if answers.get(reply.sequence) != newest:
            break
        count += 1
    return count


def _canonical(arguments: str) -> bytes | str:
    """Give the form in which arguments are compared: 20 and 20.0 are one amount; what is no JSON stands as it is."""
    try:
        return canonical_json(_whole(parse_json(arguments, max_bytes=ARGUMENTS_BYTES_MAX)))
    except InvalidField:
        return arguments


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return value
