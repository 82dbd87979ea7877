"""Read the journal of a task in pages."""

from __future__ import annotations

from typing import Final

from memoryos_core.scope import Scope

from memoryos_harness.domain.tasks import Step
from memoryos_harness.ports import TaskStore

PAGE_SIZE_DEFAULT: Final = 50


async def list_steps(
    store: TaskStore, scope: Scope, task_id: str, *, after_sequence: int, page_size: int
) -> tuple[tuple[Step, ...], bool]:
    """Give steps of the caller's task after a place, and whether there are more."""
    size = page_size or PAGE_SIZE_DEFAULT
    found = await store.list_steps(scope, task_id, after_sequence=after_sequence, limit=size + 1)
    return found[:size], len(found) > size
