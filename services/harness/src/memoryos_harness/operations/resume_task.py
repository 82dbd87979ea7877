"""Let a task at rest go on."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.tasks import Task
from memoryos_harness.ports import Request, TaskStore


async def resume_task(store: TaskStore, scope: Scope, task_id: str, note: str, request: Request) -> Task:
    """Give the caller's task, which goes on after its last finished step.

    `note` answers the call that was handed over to a person. Only people
    resume tasks: the table of methods lets no agent in.
    """
    return await store.resume(scope, task_id, note, request)
