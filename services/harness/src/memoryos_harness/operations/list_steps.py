"""Read the journal of a task in pages."""

from __future__ import annotations

from typing import Final

from memoryos_core.canonical import canonical_json
from memoryos_core.scope import Scope

from memoryos_harness.domain.pages import page_length
from memoryos_harness.domain.tasks import Step
from memoryos_harness.ports import TaskStore

PAGE_SIZE_DEFAULT: Final = 50
PAGE_BYTES_MAX: Final = 3_145_728
"""A page of large steps ends early: gRPC clients take 4 MiB unless told otherwise."""


async def list_steps(
    store: TaskStore, scope: Scope, task_id: str, *, after_sequence: int, page_size: int
) -> tuple[tuple[Step, ...], bool]:
    """Give steps of the caller's task after a place, and whether there are more."""
    size = page_size or PAGE_SIZE_DEFAULT
    found = await store.list_steps(scope, task_id, after_sequence=after_sequence, limit=size + 1)
    sizes = [len(canonical_json([step.input, step.output])) for step in found[:size]]
    fit = page_length(sizes, PAGE_BYTES_MAX)
    return found[:fit], len(found) > fit
