"""The tool step: one call through the tool-gateway, at most once whatever dies (I5).

The id of the journaled step is the request id of the call. Whoever carries the
step on calls again with the same id, and the gateway's journal tells what
became of it; nothing here ever makes a new id for the same request.
"""

from __future__ import annotations

import asyncio
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import DependencyUnavailable
from memoryos_telemetry.names import (
    CALL_ID,
    DECISION_ID,
    EFFECT_STATE,
    EXECUTE_TOOL,
    GEN_AI_OPERATION,
    GEN_AI_TOOL,
    LEASE_EPOCH,
    REVIEW_ID,
    SKILL,
    STEP_ID,
    TASK_ID,
)
from memoryos_telemetry.telemetry import tracer
from opentelemetry.trace import Span

from memoryos_harness.domain.actions import CallTool, Stop
from memoryos_harness.domain.journal_forms import skill_of, stop_of, tool_input, tool_request_of, tried_before
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind, tool_result
from memoryos_harness.domain.repeats import repeated
from memoryos_harness.domain.states import StepKind, TaskState
from memoryos_harness.domain.tasks import Step
from memoryos_harness.operations.task_run import AttemptFailed, TaskRun

UNKNOWN_TOOL: Final = "unknown_tool"
_TRACER = tracer("memoryos.harness")


async def call_tool(run: TaskRun, *, call: CallTool | None = None, started: Step | None = None) -> bool:
    """Journal the outcome of one try of a call, or carry a started step to its end; False when it waits for a person.

    A tool that the model was not offered, arguments that are no JSON object,
    a call that failed too often and one that was made before never reach the gateway: the model is told so.
    """
    lease = run.claim.lease
    if started is None:
        assert call is not None
        crash_point("harness.step.before_journal")
        target, given = call.attempt.skill or UNKNOWN_TOOL, tool_input(call.request, call.attempt)
        step = await run.ports.journal.begin(lease, kind=StepKind.TOOL_CALL, target=target, given=given)
    elif run.claim.state is TaskState.WAITING_REVIEW:
        step = started  # the task goes on waiting unless the call has moved on; the claim was its fence
    else:
        step = await run.ports.journal.resume(lease, started)
    run.started(step)
    crash_point("harness.step.after_started")
    outcome = _told_here(run, step) or await _call(run, step, asked_before=started is not None)
    crash_point("harness.step.after_effect")
    if outcome.kind is CallOutcomeKind.PARKED:
        wait_s = run.settings.review_poll_s(run.claim.parked_s)
        await run.ports.journal.park(lease, step, outcome.ids, wake_after_s=wait_s)
        return False
    await run.finish(step, tool_result(outcome))
    crash_point("harness.step.after_done")
    return True


def _told_here(run: TaskRun, step: Step) -> CallOutcome | None:
    """Give what the model is told of a call that is not made, None when it is."""
    request = tool_request_of(step)
    match stop_of(step):
        case Stop.SAME_FAILURES:
            return CallOutcome(kind=CallOutcomeKind.STOPPED)
        case Stop.REPEATED:
            before = next(made for made in run.steps if made.sequence == tried_before(step))
            return repeated(before)
    if not skill_of(step):
        return CallOutcome(kind=CallOutcomeKind.INVALID, message="There is no tool of this name.")
    if request.arguments_error:
        return CallOutcome(kind=CallOutcomeKind.INVALID, message=f"The call was not made: {request.arguments_error}.")
    return None


async def _call(run: TaskRun, step: Step, *, asked_before: bool) -> CallOutcome:
    skill = skill_of(step)
    attributes: dict[str, str | int] = {
        GEN_AI_OPERATION: EXECUTE_TOOL,
        GEN_AI_TOOL: skill,
        SKILL: skill,
        TASK_ID: run.claim.lease.task_id,
        STEP_ID: step.id,
        LEASE_EPOCH: run.claim.lease.epoch,
    }
    with _TRACER.span(f"{EXECUTE_TOOL} {skill}", attributes=attributes) as span:
        outcome = await _settled(run, step, skill, asked_before=asked_before)
        _describe(span, outcome)
        return outcome


async def _settled(run: TaskRun, step: Step, skill: str, *, asked_before: bool) -> CallOutcome:
    """Ask until the call is parked or has ended. A gateway that stays silent fails the attempt, the step stays open.

    A refusal at the door says nothing of an asking before it, whose answer may
    have been lost: then it is not known whether the call was made.
    """
    failures = 0
    while True:
        try:
            outcome = await run.ports.tools.call_skill(
                await run.ports.tokens.mint(run.claim),
                skill=skill,
                arguments=tool_request_of(step).arguments.encode(),
                request_id=step.id,
                lease_epoch=run.claim.lease.epoch,
            )
        except DependencyUnavailable as error:
            failures += 1
            if run.claim.state is TaskState.WAITING_REVIEW:
                return CallOutcome(kind=CallOutcomeKind.PARKED, ids=step.ids)  # look again later
            if failures >= run.settings.tries:
                raise AttemptFailed(
                    "tools_unavailable", "The tool-gateway does not answer.", error.retry_after_s
                ) from error
            await asyncio.sleep(error.retry_after_s or run.settings.backoff_s(failures - 1))
            continue
        if outcome.at_the_door and (asked_before or failures):
            return CallOutcome(kind=CallOutcomeKind.UNKNOWN, code=outcome.code, ids=step.ids)
        if outcome.kind is not CallOutcomeKind.IN_FLIGHT:
            return outcome
        asked_before = True
        if run.seconds_left <= 0:
            return CallOutcome(kind=CallOutcomeKind.UNKNOWN, ids=outcome.ids)
        await asyncio.sleep(run.settings.in_flight_poll_s)


def _describe(span: Span, outcome: CallOutcome) -> None:
    span.set_attribute(EFFECT_STATE, str(outcome.kind))
    for name, value in (
        (CALL_ID, outcome.ids.call_id),
        (DECISION_ID, outcome.ids.decision_id),
        (REVIEW_ID, outcome.ids.review_id),
    ):
        if value:
            span.set_attribute(name, value)
