"""Tasks, their steps, and the lease that lets one worker write to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryos_core.canonical import JsonValue

from memoryos_harness.domain.agents import Limits
from memoryos_harness.domain.states import StepKind, StepState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One durable run of an agent, as its row says now."""

    id: str
    user: str
    chain: tuple[str, ...]
    agent: str
    agent_version: str
    session_id: str
    state: TaskState
    input: str
    output: str
    error_code: str
    error_message: str
    attempt: int
    lease_epoch: int
    step_count: int
    traceparent: str
    create_time: datetime
    update_time: datetime
    end_time: datetime | None
    parent_task_id: str = ""
    depth: int = 0
    priority: int = 0
    agent_label: str = ""
    token_count: int = 0
    call_count: int = 0
    limits: Limits | None = None
    """What it may use up; None in lists, which hold no contents."""
    deadline_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIds:
    """Ids of a tool call in the tool-gateway; empty where there is none."""

    call_id: str = ""
    decision_id: str = ""
    review_id: str = ""


NO_CALL: Final = CallIds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One journaled step; `sequence` counts from 1 within its task."""

    id: str
    sequence: int
    kind: StepKind
    state: StepState
    target: str
    input: JsonValue
    output: JsonValue
    ids: CallIds
    item_ids: tuple[str, ...]
    lease_epoch: int
    create_time: datetime
    end_time: datetime | None
    child_task_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What became of a step. `output` is journaled whole; the counters go to the task."""

    state: StepState
    output: JsonValue
    ids: CallIds = NO_CALL
    item_ids: tuple[str, ...] = ()
    token_count: int = 0
    call_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """One thing that happened to a task; `sequence` counts from 1 within it."""

    sequence: int
    state: TaskState
    step_id: str
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write to a task: valid while the row has this epoch."""

    tenant: str
    user: str
    task_id: str
    epoch: int
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a task has used up of its limits."""

    steps: int
    tokens: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks a list holds; empty: all."""

    states: tuple[TaskState, ...] = ()
    session_id: str = ""
    agent: str = ""
    parent_task_id: str = ""
    all_users: bool = False


@dataclass(frozen=True, slots=True)
class TaskListPlace:
    """Where a page of tasks ended."""

    create_time: datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """A page of tasks, and where it ended; None after the last."""

    tasks: tuple[Task, ...]
    next: TaskListPlace | None
