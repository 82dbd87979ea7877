"""What is done about a call, from its first try to its answer: preset per skill in the agent's file, never improvised.

A call that FAILED for certain is made again up to `retries` times, after waits
that double; then `other_skills` are asked, each once; then the model is told, a
person takes over, or the task fails. Every try is a step of its own. A call
that was refused, or whose arguments were wrong, is never tried again here: its
answer goes to the model. Nor is one whose outcome is not known, unless its
skill reads or is idempotent: then it is made again as after a failure.

That FAILED proves that nothing happened is the gateway's word: the transport
shows that nothing was sent, the call was a read, or the upstream answered that
it did not do it. A code that is not among CERTAIN is not relied on; nor is
"did_not_happen", which was looked up after a doubt: a slow upstream may still be at it.

The same call that failed in the same way `same_failures` times in a row, or of
which it is not known whether it happened, or that was done with an answer that cannot
be read, is not made again in the task. The
model is told so once. When it asks once more all the same, a person takes over,
or the task fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_harness.domain.actions import Action, Because, CallTool, Die, HandOff, Stop, ToolRequest, Try
from memoryos_harness.domain.agents import Agent, OnFailure
from memoryos_harness.domain.journal_forms import (
    ANSWERS,
    as_object,
    because_of,
    code_of,
    fell_back,
    may_repeat,
    position_of,
    replies,
    skill_asked_for,
    skill_of,
    stop_of,
    tool_request_of,
    tools_of,
    tried_before,
    try_number,
)
from memoryos_harness.domain.outcomes import CallOutcomeKind, told_message
from memoryos_harness.domain.repeats import RESULT_INVALID, answered_before, ended_calls, equal_calls
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.tasks import Step

WORTH_A_RETRY: Final = frozenset(
    {
        "not_sent",
        "upstream_unavailable",
        "upstream_open",
        "upstream_busy",
        "upstream_throttled",
        RESULT_INVALID,
    }
)
"""Codes of failures that may pass: nothing was sent, the upstream said that it was too much, or it was a read whose
answer did not come or was no good."""
CERTAIN: Final = WORTH_A_RETRY | {"network_refused", "no_upstream_identity", "rate_limited", "upstream_status"}
"""Codes of failures that prove that nothing happened: another skill may be asked to do it."""
WAIT_S_MAX: Final = 600.0
TOOL_FAILED: Final = "tool_failed"
SAME_FAILURES: Final = "same_failures"
_ANY_SKILL: Final = "*"


def next_for_request(agent: Agent, steps: Sequence[Step], request: ToolRequest) -> Action | None:
    """Give what is done for one call that the model asked for; None when it has its answer."""
    place = (request.model_step, request.index)
    made = [step for step in steps if step.kind in ANSWERS and position_of(step) == place and not _given_up(step)]
    if not made:
        return _first(agent, steps, request)
    last = made[-1]
    if last.kind is StepKind.HAND_OFF or last.state is StepState.DONE:
        return None
    match as_object(last.output).get("outcome"):
        case CallOutcomeKind.FAILED:
            return _after_failure(agent, steps, request, made)
        case CallOutcomeKind.UNKNOWN if may_repeat(_asking(steps, request), skill_of(last)):
            return _same_again(preset_of(agent, skill_of(last)), made)
    return None


def _asking(steps: Sequence[Step], request: ToolRequest) -> Step:
    return next(step for step in steps if step.sequence == request.model_step)


def _given_up(step: Step) -> bool:
    """Tell whether nobody took a call over before the task ended; a task that is tried again asks again."""
    return step.kind is StepKind.HAND_OFF and step.state is StepState.FAILED


def preset_of(agent: Agent, skill: str) -> OnFailure:
    """Give what the agent's file says about failures of a skill."""
    return agent.on_failure.get(skill) or agent.on_failure.get(_ANY_SKILL) or OnFailure()


def _first(agent: Agent, steps: Sequence[Step], request: ToolRequest) -> Action:
    skill = skill_asked_for(steps, request)
    equal = equal_calls(steps, request, skill)
    before = answered_before(agent, steps, request, skill)
    if before is not None:
        return CallTool(request, Try(skill=skill, stop=Stop.REPEATED, of=before.sequence))
    failures = _equal_failures(equal)
    told = bool(equal) and stop_of(equal[-1]) is Stop.SAME_FAILURES
    if told:
        return _stopped_for_good(agent, request, skill, failures)
    doubtful = _may_be_done(equal) and not may_repeat(_asking(steps, request), skill)
    if doubtful or len(failures) >= agent.same_failures:
        return CallTool(request, Try(skill=skill, stop=Stop.SAME_FAILURES))
    failed = _failed_just_before(steps, request, skill)
    if failed is None:
        return CallTool(request, Try(skill=skill))
    because = Because.RETRY if equal_calls([failed], request, skill) else Because.OTHER_ARGUMENTS
    number = try_number(failed) + 1
    return CallTool(request, Try(skill=skill, number=number, because=because, of=failed.sequence))


def _after_failure(agent: Agent, steps: Sequence[Step], request: ToolRequest, made: Sequence[Step]) -> Action | None:
    last, asked = made[-1], skill_of(made[0])
    preset, code, tried = preset_of(agent, asked), code_of(last), [skill_of(step) for step in made]
    if code in WORTH_A_RETRY and not fell_back(last) and (again := _same_again(preset, made)) is not None:
        return again
    if code in CERTAIN:
        offered = tools_of(_asking(steps, request))
        for other in preset.other_skills:
            is_free = answered_before(agent, steps, request, other) is None
            is_free = is_free and not _may_be_done(equal_calls(steps, request, other))
            if other in offered and other not in tried and is_free:
                return CallTool(request, _again(last, Because.OTHER_SKILL, other, 0.0))
    message = told_message(last.output)
    match preset.then:
        case "hand_off":
            return HandOff(request=request, skill=asked, code=code, message=message)
        case "fail":
            return Die(TOOL_FAILED, f"The skill {asked} failed ({code}), and the agent's file says to stop then.")
    return None


def _same_again(preset: OnFailure, made: Sequence[Step]) -> CallTool | None:
    """Give the same call once more after its wait; None when all tries are used up, or another skill was asked."""
    asked = skill_of(made[0])
    if len(made) > preset.retries or any(skill_of(step) != asked for step in made):
        return None
    wait_s = min(preset.backoff_s * 2.0 ** (len(made) - 1), WAIT_S_MAX)
    return CallTool(tool_request_of(made[0]), _again(made[-1], Because.RETRY, asked, wait_s))


def _again(failed: Step, because: Because, skill: str, wait_s: float) -> Try:
    return Try(skill=skill, number=try_number(failed) + 1, because=because, of=failed.sequence, wait_s=wait_s)


def _stopped_for_good(agent: Agent, request: ToolRequest, skill: str, failures: Sequence[Step]) -> Action:
    code = (code_of(failures[-1]) or _outcome(failures[-1]).lower()) if failures else ""
    if preset_of(agent, skill).then == "hand_off":
        message = told_message(failures[-1].output) if failures else ""
        return HandOff(request=request, skill=skill, code=code, message=message)
    return Die(
        SAME_FAILURES, f"The task went on asking for a call of {skill or request.name} that it was told to stop."
    )


def _equal_failures(equal: Sequence[Step]) -> list[Step]:
    """Give the newest steps that failed in one and the same way, oldest first; what only told of them aside."""
    made = [step for step in equal if stop_of(step) is None]
    found: list[Step] = []
    for step in reversed(made):
        if step.state is StepState.DONE or (found and _way(step) != _way(found[0])):
            break
        found.append(step)
    return found[::-1]


def _failed_just_before(steps: Sequence[Step], request: ToolRequest, skill: str) -> Step | None:
    """Give the step that failed for this skill in the reply before, as far as the model could do something about it."""
    if not skill:
        return None
    earlier = [step.sequence for step in replies(steps) if step.sequence < request.model_step]
    if not earlier:
        return None
    of_before = [s for s in ended_calls(steps) if position_of(s)[0] == earlier[-1] and _asked_skill(s, steps) == skill]
    taken = {tried_before(s) for s in ended_calls(steps) if because_of(s) is not None}
    for step in reversed(of_before):
        if step.sequence not in taken and _outcome(step) in (CallOutcomeKind.FAILED, CallOutcomeKind.INVALID):
            return step
    return None


def _asked_skill(step: Step, steps: Sequence[Step]) -> str:
    return skill_asked_for(steps, tool_request_of(step))


def _outcome(step: Step) -> str:
    return str(as_object(step.output).get("outcome") or "")


def _may_be_done(equal: Sequence[Step]) -> bool:
    """Tell whether a call may have been done, or was done with an answer that cannot be read."""
    return any(
        _outcome(step) == CallOutcomeKind.UNKNOWN or (step.state is StepState.DONE and code_of(step) == RESULT_INVALID)
        for step in equal
    )


def _way(step: Step) -> tuple[str, str]:
    return _outcome(step), code_of(step)
