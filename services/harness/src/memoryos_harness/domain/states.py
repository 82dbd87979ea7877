"""The state machine of a task, as one table (DESIGN §6)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TaskState(StrEnum):
    """Where a task stands; names as in memoryos.harness.v1.TaskState."""

    IDLE = "IDLE"
    THINKING = "THINKING"
    TOOL_CALLING = "TOOL_CALLING"
    RESPONDING = "RESPONDING"
    WAITING_REVIEW = "WAITING_REVIEW"
    CANCELLING = "CANCELLING"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"
    PAUSED = "PAUSED"
    RETRY = "RETRY"
    WAITING_TASK = "WAITING_TASK"


class StepKind(StrEnum):
    """What a step does."""

    MODEL_CALL = "MODEL_CALL"
    MEMORY_READ = "MEMORY_READ"
    TOOL_CALL = "TOOL_CALL"
    CHILD_TASK = "CHILD_TASK"
    PAGE_OUT = "PAGE_OUT"
    HAND_OFF = "HAND_OFF"


class StepState(StrEnum):
    """Where a step stands."""

    STARTED = "STARTED"
    DONE = "DONE"
    FAILED = "FAILED"


_STOPPING: Final = frozenset({TaskState.FAILED, TaskState.DEAD, TaskState.CANCELLING, TaskState.PAUSED})
_WORKING: Final = frozenset({TaskState.THINKING, TaskState.TOOL_CALLING, TaskState.RESPONDING})
_WAITING: Final = frozenset({TaskState.WAITING_REVIEW, TaskState.WAITING_TASK})

TRANSITIONS: Final[Mapping[TaskState, frozenset[TaskState]]] = {
    TaskState.IDLE: frozenset({TaskState.THINKING}) | _STOPPING,
    TaskState.THINKING: _WORKING | _STOPPING,
    TaskState.TOOL_CALLING: frozenset({TaskState.TOOL_CALLING, TaskState.THINKING}) | _WAITING | _STOPPING,
    TaskState.RESPONDING: frozenset({TaskState.SUCCEEDED}) | _STOPPING,
    TaskState.WAITING_REVIEW: frozenset({TaskState.TOOL_CALLING}) | _STOPPING,
    TaskState.WAITING_TASK: frozenset({TaskState.TOOL_CALLING}) | _STOPPING,
    TaskState.FAILED: frozenset({TaskState.RETRY}) | _STOPPING,
    TaskState.PAUSED: frozenset({TaskState.RETRY, TaskState.DEAD, TaskState.CANCELLING}),
    TaskState.RETRY: _WORKING | _STOPPING,
    TaskState.CANCELLING: frozenset({TaskState.CANCELLED}),
    TaskState.SUCCEEDED: frozenset(),
    TaskState.DEAD: frozenset({TaskState.RETRY}),
    TaskState.CANCELLED: frozenset(),
}
"""Every allowed change of state. What is not here is a fault of ours."""

ENDED: Final = frozenset({TaskState.SUCCEEDED, TaskState.DEAD, TaskState.CANCELLED})
"""Terminal states: nothing happens to the task any more, but that a person may have a DEAD one tried again."""

STATE_OF_STEP: Final[Mapping[StepKind, TaskState]] = {
    StepKind.MODEL_CALL: TaskState.THINKING,
    StepKind.MEMORY_READ: TaskState.THINKING,
    StepKind.TOOL_CALL: TaskState.TOOL_CALLING,
    StepKind.CHILD_TASK: TaskState.TOOL_CALLING,
    StepKind.PAGE_OUT: TaskState.THINKING,
    StepKind.HAND_OFF: TaskState.TOOL_CALLING,
}
"""The state that a task is in while a step of this kind runs."""


def may_become(before: TaskState, after: TaskState) -> bool:
    """Tell whether a task may go from `before` to `after`."""
    return after in TRANSITIONS[before]
