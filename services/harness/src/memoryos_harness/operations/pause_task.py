"""Let a task rest."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.tasks import Task
from memoryos_harness.ports import Request, TaskStore


async def pause_task(store: TaskStore, scope: Scope, task_id: str, request: Request) -> Task:
    """Give the caller's task as it stands after it was asked to rest.

    A task that nobody works on is PAUSED at once, else after the step under
    way; sub-agents rest with it. A review that it waits for stays open.
    """
    return await store.pause(scope, task_id, request)
