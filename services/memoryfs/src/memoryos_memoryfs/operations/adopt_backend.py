"""What a process does at its start when the configuration names another backend than before."""

from __future__ import annotations

import logging
from dataclasses import replace

from memoryos_memoryfs.operations.copy_changes import NAMED_PAGE
from memoryos_memoryfs.ports.index import Backend, Backends, BackendState, IndexOutbox, Phase

_log = logging.getLogger(__name__)


async def adopt_backend(state: BackendState, outbox: IndexOutbox, configured: Backend) -> Backends:
    """Give the state after the configuration was heeded; a value that has not changed changes nothing.

    Qdrant: changes are copied from now on, everything there is named, then
    searches go there; until it is copied PostgreSQL answers. pgvector:
    searches go to PostgreSQL, where the vectors always are. A move that is on
    (MigrateIndex) is not disturbed.
    """
    before = await state.get()
    if before.configured is configured:
        return before
    if before.phase is not Phase.NONE:
        _log.warning("memoryfs.vector_backend changed during a move: heeded once the move has ended")
        return before
    after = Backends(configured=configured, serving=configured, feeding=configured is Backend.QDRANT)
    if configured is Backend.QDRANT and before.serving is not Backend.QDRANT:
        feeding = replace(before, feeding=True)
        if not await state.change(before, feeding):
            return await state.get()
        last: tuple[str, str] | None = ("", "")
        while last is not None:
            last = await outbox.name_all(last, NAMED_PAGE)
        before = feeding
    await state.change(before, after)
    return await state.get()
