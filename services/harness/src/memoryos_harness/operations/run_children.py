"""Sub-agents at work: their tasks are started together, and joined when all have ended."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import NotAllowed
from memoryos_core.paths import PathInvalid
from memoryos_telemetry.context import current_traceparent
from memoryos_telemetry.names import EXECUTE_TOOL, GEN_AI_AGENT, GEN_AI_OPERATION, GEN_AI_TOOL, LEASE_EPOCH, TASK_ID
from memoryos_telemetry.telemetry import tracer

from memoryos_harness.domain.actions import ToolRequest
from memoryos_harness.domain.children import (
    child_input,
    child_limits,
    child_of,
    child_skill,
    may_start,
    refused,
    task_of,
)
from memoryos_harness.domain.grants import narrowed
from memoryos_harness.domain.journal import LIMIT_SECONDS, LIMIT_TOKENS
from memoryos_harness.domain.journal_forms import skill_asked_for
from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind
from memoryos_harness.domain.releases import KnownAgent
from memoryos_harness.domain.repeats import done_by_sub_agent_before, repeated
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.errors import AgentNotFound
from memoryos_harness.operations.task_run import TaskDies, TaskRun
from memoryos_harness.ports import ChildStart, NewTask

_TRACER = tracer("memoryos.harness")
NOT_REACHED = "The sub-agent asks for memory that this task does not reach; it was not started."
NO_MORE = "No further sub-agent can be started in this task."
TWICE = "The same sub-agent is asked for the same thing in this reply; its answer stands there."
NOT_THERE = "There is no sub-agent of this name."

Chosen = tuple[ToolRequest, KnownAgent, str]
"""A call, the sub-agent that it means, and what that is to do."""


async def start_children(run: TaskRun, requests: Sequence[ToolRequest]) -> bool:
    """Start the sub-agents of one reply; False when the task waits for them now, and is held no more.

    A call that cannot be started is a step of its own with what the model is
    told. What the task has left is shared out among those that are.
    """
    chosen: list[Chosen] = []
    told: dict[int, CallOutcome] = {}
    left = may_start(run.claim.agent, run.steps)
    for request in requests:
        found = _choose(run, request, chosen) if len(chosen) < left else _refusal(NO_MORE)
        if isinstance(found, CallOutcome):
            told[request.index] = found
        else:
            chosen.append((request, *found))
    tasks = _tasks(run, chosen)
    starts = [_start(run, request, tasks.get(request.index), told.get(request.index)) for request in requests]
    crash_point("harness.child.before_start")
    steps = await run.ports.children.start(run.claim.lease, starts)
    for step in steps:
        run.started(step)
    if not chosen:
        return True
    crash_point("harness.child.after_start")
    return False


async def join_children(run: TaskRun) -> bool:
    """Journal what became of the sub-agents; False when one still works, and the task is held no more."""
    waiting = [s for s in run.steps if s.kind is StepKind.CHILD_TASK and s.state is StepState.STARTED]
    crash_point("harness.child.before_join")
    joined = await run.ports.children.join(run.claim.lease, waiting)
    if joined is None:
        return False
    for step, result in joined.results:
        run.finished(step, result)
    run.charge(joined.seconds)
    crash_point("harness.child.after_join")
    return True


def _choose(run: TaskRun, request: ToolRequest, chosen: Sequence[Chosen]) -> tuple[KnownAgent, str] | CallOutcome:
    claim = run.claim
    task = task_of(request)
    if isinstance(task, CallOutcome):
        return task
    name = child_of(claim.agent, skill_asked_for(run.steps, request))
    before = done_by_sub_agent_before(claim.agent, run.steps, request, name)
    if before is not None:
        return repeated(before)
    twice = any((known.agent.name, text) == (name, task) for _, known, text in chosen)
    if twice and child_skill(name) not in claim.agent.may_repeat:
        return _refusal(TWICE)
    try:
        identity = claim.grant[-1].identity
        known = run.ports.agents.find(name, identity)
        narrowed(identity, known.agent, session_id=claim.session_id, task_id=claim.lease.task_id)
    except AgentNotFound:
        return CallOutcome(kind=CallOutcomeKind.INVALID, message=NOT_THERE)
    except (NotAllowed, PathInvalid):
        return _refusal(NOT_REACHED)
    return known, task


def _refusal(message: str) -> CallOutcome:
    return CallOutcome(kind=CallOutcomeKind.REFUSED, message=message)


def _tasks(run: TaskRun, chosen: Sequence[Chosen]) -> dict[int, NewTask]:
    """Give the tasks of the sub-agents, each within its share and with a span that its own trace hangs on."""
    claim = run.claim
    made: dict[int, NewTask] = {}
    for request, known, text in chosen:
        agent = known.agent
        limits = child_limits(
            claim.agent.limits, run.used, agent.limits, seconds_left=run.seconds_left, among=len(chosen)
        )
        if limits is None and run.seconds_left < 1:
            raise TaskDies(LIMIT_SECONDS, f"The task reached its limit of {claim.agent.limits.seconds} seconds.")
        if limits is None:
            raise TaskDies(LIMIT_TOKENS, f"The task reached its limit of {claim.agent.limits.tokens} tokens.")
        made[request.index] = NewTask(
            session_id=claim.session_id,
            agent=agent,
            agent_label=known.label,
            grant=claim.grant,
            input=text,
            traceparent=_traceparent(run, agent.name),
            limits=limits,
            parent_task_id=claim.lease.task_id,
            depth=len(claim.grant) - 1,
        )
    return made


def _traceparent(run: TaskRun, agent: str) -> str:
    attributes: dict[str, str | int] = {
        GEN_AI_OPERATION: EXECUTE_TOOL,
        GEN_AI_TOOL: child_skill(agent),
        GEN_AI_AGENT: agent,
        TASK_ID: run.claim.lease.task_id,
        LEASE_EPOCH: run.claim.lease.epoch,
    }
    with _TRACER.span(f"{EXECUTE_TOOL} {child_skill(agent)}", attributes=attributes):
        return current_traceparent()


def _start(run: TaskRun, request: ToolRequest, task: NewTask | None, told: CallOutcome | None) -> ChildStart:
    agent = child_of(run.claim.agent, skill_asked_for(run.steps, request))
    seconds = 0 if task is None or task.limits is None else task.limits.seconds
    return ChildStart(
        agent=agent,
        given=child_input(request, agent, seconds=seconds),
        task=task,
        refusal=None if told is None else refused(told),
    )
