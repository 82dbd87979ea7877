"""List tasks in pages."""

from __future__ import annotations

from typing import Final

from memoryos_core.errors import RoleRequired
from memoryos_core.scope import Scope

from memoryos_harness.domain.sessions import OVERSEERS
from memoryos_harness.domain.tasks import TaskFilter, TaskListPlace, TaskPage
from memoryos_harness.ports import TaskStore

PAGE_SIZE_DEFAULT: Final = 50


async def list_tasks(
    store: TaskStore, scope: Scope, which: TaskFilter, *, after: TaskListPlace | None, page_size: int
) -> TaskPage:
    """Give a page of the caller's tasks, newest first, or of those of the whole tenant to operators and auditors.

    The latter hold no contents: what was asked and answered is the user's.
    """
    if which.all_users and not scope.roles & OVERSEERS:
        raise RoleRequired
    return await store.list(scope, which, after=after, limit=page_size or PAGE_SIZE_DEFAULT)
