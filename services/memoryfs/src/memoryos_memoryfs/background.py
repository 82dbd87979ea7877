"""What a running MemoryFS does apart from its calls: one loop each, which outlives every failure of a round."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from memoryos_core.clock import Clock
from memoryos_models.ports import Embedder

from memoryos_memoryfs.adapters.pg_upkeep import SWEPT_MAX, PgUpkeep
from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.operations.bind_paths import end_due_bindings
from memoryos_memoryfs.operations.embed_pending import embed_pending
from memoryos_memoryfs.operations.keep_lifecycle import keep_lifecycle
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.bindings import BindingQueue
from memoryos_memoryfs.ports.lifecycle import LifecycleUpkeep
from memoryos_memoryfs.ports.storage import EmbedQueue

_log = logging.getLogger(__name__)
_DUE_LOOK_S_MAX: Final = 60.0
"""Who is due is looked up by one probe of an index per tenant: often enough, and not all the time."""


async def embed_forever(queue: EmbedQueue, embedder: Embedder, section: MemoryFSSection) -> None:
    """Embed what waits, batch after batch; sleep only when nothing was done."""
    await _while_there_is_work(lambda: embed_pending(queue, embedder, section), section.embed_poll_s)


async def end_bindings_forever(parts: Parts, queue: BindingQueue) -> None:
    """End bindings whose time is over."""
    await _while_there_is_work(lambda: end_due_bindings(parts, queue), parts.section.bindings_poll_s)


async def keep_lifecycle_forever(upkeep: LifecycleUpkeep, clock: Clock, section: MemoryFSSection) -> None:
    """Look after tenants as they come due."""

    async def once() -> None:
        await keep_lifecycle(upkeep, clock, section.lifecycle_s)

    await _every(max(0.05, min(section.lifecycle_s / 20, _DUE_LOOK_S_MAX)), once)


async def keep_index_forever(upkeep: PgUpkeep, clock: Clock, every_s: float) -> None:
    """Count hits and sweep expired index rows."""

    async def once() -> None:
        await upkeep.flush()
        while await upkeep.sweep(clock.now()) >= SWEPT_MAX:
            pass

    await _every(every_s, once)


async def _while_there_is_work(once: Callable[[], Awaitable[int]], pause_s: float) -> None:
    while True:
        try:
            done = await once()
        except Exception:
            _log.exception("a round of background work failed")
            done = 0
        if not done:
            await asyncio.sleep(pause_s)


async def _every(pause_s: float, once: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(pause_s)
        try:
            await once()
        except Exception:
            _log.exception("a round of background work failed")
