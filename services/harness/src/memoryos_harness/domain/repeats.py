"""Calls that the model asks for again although it has their answer: they are not made, and it is told the answer.

A call that changes something, and is not idempotent, is made once in a task:
models repeat themselves, and a second refund of the same amount for the same
order is nearly always that. A call that reads, or is idempotent, may be made
again; but not when it was the last thing asked for, several times in a row,
with the same answer. What a sub-agent does is not known: it is asked for the
same thing once. The agent's file names the skills, and sub-agents as
`agent.NAME`, for which this does not hold (`may_repeat`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from memoryos_harness.domain.actions import ToolRequest
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.arguments import arguments_digest
from memoryos_harness.domain.children import child_skill
from memoryos_harness.domain.journal_forms import (
    ANSWERS,
    MODEL_REPLY_INVALID,
    as_object,
    code_of,
    digest_in,
    fell_back,
    may_repeat,
    position_of,
    replies,
    skill_asked_for,
    skill_of,
    tool_request_of,
    tool_requests,
)
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind, told_content
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step

RESULT_INVALID: Final = "result_invalid"
SAME_ANSWERS: Final = "same_answers"


def answered_before(agent: Agent, steps: Sequence[Step], request: ToolRequest, skill: str) -> Step | None:
    """Give the step that has the answer of a call which is not made again for it, None when it is to be made."""
    wanted = arguments_digest(request.arguments)
    done = [
        step
        for step in ended_calls(steps)
        if digest_in(step) == wanted
        and _is_done(step)
        # Done by the skill itself, or by the one that stood in for it.
        and skill in (skill_of(step), skill_asked_for(steps, tool_request_of(step)))
    ]
    if not done or skill in agent.may_repeat:
        return None
    asking = next(step for step in steps if step.sequence == request.model_step)
    harmless = may_repeat(asking, skill) and may_repeat(asking, skill_of(done[-1]))
    if not harmless or _in_a_row(steps, request, done) >= agent.same_answers:
        return done[-1]
    return None


def done_by_sub_agent_before(agent: Agent, steps: Sequence[Step], request: ToolRequest, name: str) -> Step | None:
    """Give the step in which a sub-agent did the same, None when it is to be asked."""
    if child_skill(name) in agent.may_repeat:
        return None
    wanted = arguments_digest(request.arguments)
    done = [
        step
        for step in steps
        if step.kind is StepKind.CHILD_TASK
        and step.state is StepState.DONE
        and as_object(step.input)["agent"] == name
        and digest_in(step) == wanted
    ]
    return done[-1] if done else None


def repeated(before: Step) -> CallOutcome:
    """Give what the model is told of a call that is not made again."""
    return CallOutcome(kind=CallOutcomeKind.REPEATED, result=json.loads(told_content(before.output)))


def only_repeats(steps: Sequence[Step], reply: Step) -> bool:
    """Tell whether all that the model asked for in this reply it has the answer of."""
    answers = [step for step in steps if step.kind in ANSWERS and position_of(step)[0] == reply.sequence]
    requests = {(request.model_step, request.index) for request in tool_requests(reply)}
    return bool(requests) and requests == {position_of(step) for step in answers if _is_repeated(step)}


def _is_repeated(step: Step) -> bool:
    return as_object(step.output).get("outcome") == CallOutcomeKind.REPEATED


def refusals_to_answer(steps: Sequence[Step], reply: Step) -> int:
    """Count the model calls since this reply that gave nothing usable, such as a call of a tool that is not offered."""
    return sum(
        step.kind is StepKind.MODEL_CALL and as_object(step.output).get("error") == MODEL_REPLY_INVALID
        for step in steps
        if step.sequence > reply.sequence
    )


def equal_calls(steps: Sequence[Step], request: ToolRequest, skill: str) -> list[Step]:
    """Give the ended calls of the same skill with the same arguments, however these are written."""
    wanted = arguments_digest(request.arguments)
    return [step for step in ended_calls(steps) if digest_in(step) == wanted and _aims_at(step, request, skill)]


def _aims_at(step: Step, request: ToolRequest, skill: str) -> bool:
    """Tell whether a call is one of the skill; where there is none of that name, of the name."""
    if skill:
        return skill_of(step) == skill
    return not skill_of(step) and as_object(step.input)["name"] == request.name


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
