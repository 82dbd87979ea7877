"""Have a task tried again."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.tasks import Task
from memoryos_harness.ports import Request, TaskStore


async def retry_task(store: TaskStore, scope: Scope, task_id: str, request: Request) -> Task:
    """Give the caller's task, which goes on after its last finished step with a new count of attempts.

    Limits of steps, tokens and calls are not widened by it; time is, where
    none was left.
    """
    return await store.retry(scope, task_id, request)
