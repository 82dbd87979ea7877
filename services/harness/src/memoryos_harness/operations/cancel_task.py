"""Stop a task."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.tasks import Task
from memoryos_harness.ports import Request, TaskStore


async def cancel_task(store: TaskStore, scope: Scope, task_id: str, request: Request) -> Task:
    """Give the caller's task as it stands after it was asked to stop.

    A task that nobody works on is CANCELLED at once, and a call of it that
    waits for a review is never made; else it is CANCELLING until its step ends.
    """
    return await store.cancel(scope, task_id, request)
