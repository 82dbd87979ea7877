"""Tasks, their steps and events, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from memoryos.harness.v1 import tasks_pb2

from memoryos_sdk.calls import Actor, actor
from memoryos_sdk.entries import json_value
from memoryos_sdk.names import word
from memoryos_sdk.times import moment

ENDED: Final = frozenset({"succeeded", "dead", "cancelled"})
"""States in which nothing happens to a task any more; a dead one can be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """What a task may use up; 0: as the agent's file says, and never more than that."""

    steps: int = 0
    tokens: int = 0
    calls: int = 0
    seconds: int = 0


NO_LIMITS: Final = TaskLimits()
LIMIT_NAMES: Final = ("steps", "tokens", "calls", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One durable run of an agent."""

    id: str
    agent: str
    agent_version: str
    session_id: str
    state: str
    input: str
    output: str
    error_code: str
    error_message: str
    actor: Actor
    attempt: int
    lease_epoch: int
    step_count: int
    trace_id: str
    create_time: datetime | None
    update_time: datetime | None
    end_time: datetime | None
    parent_task_id: str = ""
    """Task whose agent started it."""
    depth: int = 0
    priority: int = 0
    token_count: int = 0
    call_count: int = 0
    limits: TaskLimits = NO_LIMITS
    deadline_time: datetime | None = None
    """When its time is used up, waits for people aside."""
    agent_label: str = ""

    @property
    def ended(self) -> bool:
        """Whether it will not change any more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One journaled step; state started, done or failed.

    `kind`: model_call, memory_read, tool_call, child_task, page_out or hand_off.
    """

    id: str
    sequence: int
    kind: str
    state: str
    target: str
    input: Any
    output: Any
    call_id: str
    decision_id: str
    review_id: str
    item_ids: tuple[str, ...]
    lease_epoch: int
    create_time: datetime | None
    end_time: datetime | None
    child_task_id: str = ""
    """Task of the sub-agent, for a child_task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """One thing that happened to a task: its state after it, and the step, if any."""

    sequence: int
    state: str
    step: Step | None
    create_time: datetime | None


def task(message: tasks_pb2.Task) -> Task:
    """Give the value of a Task message."""
    return Task(
        id=message.id,
        agent=message.agent,
        agent_version=message.agent_version,
        session_id=message.session_id,
        state=word(tasks_pb2.TaskState, message.state),
        input=message.input,
        output=message.output,
        error_code=message.error_code,
        error_message=message.error_message,
        actor=actor(message.actor),
        attempt=message.attempt,
        lease_epoch=message.lease_epoch,
        step_count=message.step_count,
        trace_id=message.trace_id,
        create_time=moment(message, "create_time"),
        update_time=moment(message, "update_time"),
        end_time=moment(message, "end_time"),
        parent_task_id=message.parent_task_id,
        depth=message.depth,
        priority=message.priority,
        token_count=message.token_count,
        call_count=message.call_count,
        limits=TaskLimits(**{name: getattr(message.limits, name) for name in LIMIT_NAMES}),
        deadline_time=moment(message, "deadline_time"),
        agent_label=message.agent_label,
    )


def step(message: tasks_pb2.Step) -> Step:
    """Give the value of a Step message."""
    return Step(
        id=message.id,
        sequence=message.sequence,
        kind=word(tasks_pb2.StepKind, message.kind),
        state=word(tasks_pb2.StepState, message.state),
        target=message.target,
        input=json_value(message.input_json),
        output=json_value(message.output_json),
        call_id=message.call_id,
        decision_id=message.decision_id,
        review_id=message.review_id,
        item_ids=tuple(message.item_ids),
        lease_epoch=message.lease_epoch,
        create_time=moment(message, "create_time"),
        end_time=moment(message, "end_time"),
        child_task_id=message.child_task_id,
    )


def event(message: tasks_pb2.WatchTaskResponse) -> TaskEvent:
    """Give the value of a WatchTaskResponse message."""
    return TaskEvent(
        sequence=message.sequence,
        state=word(tasks_pb2.TaskState, message.state),
        step=step(message.step) if message.HasField("step") else None,
        create_time=moment(message, "create_time"),
    )
