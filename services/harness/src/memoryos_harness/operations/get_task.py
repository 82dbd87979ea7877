"""Look at a task."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.tasks import Task
from memoryos_harness.ports import TaskStore


async def get_task(store: TaskStore, scope: Scope, task_id: str) -> Task:
    """Give a task of the caller; anybody else's is TaskNotFound."""
    return await store.get(scope, task_id)
