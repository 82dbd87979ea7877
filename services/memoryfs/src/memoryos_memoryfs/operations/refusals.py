"""A change that is refused leaves an audit row, too: ids that are not the caller's are not tried out unseen (I9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.errors import (
    EtagMismatch,
    EvidenceNotIndependent,
    ItemNotFound,
    ItemStateForbids,
    PreviewStale,
)
from memoryos_memoryfs.parts import Parts


@asynccontextmanager
async def recorded(parts: Parts, rpc: str, scope: Scope, path: MemoryPath, ids: Sequence[str]) -> AsyncIterator[None]:
    """Record what the block refuses because of the items it names.

    The row is committed by itself, after the block's transaction was rolled
    back. Denials of permission are recorded for every method by its server.
    """
    try:
        yield
    except (ItemNotFound, ItemStateForbids, EtagMismatch, EvidenceNotIndependent, PreviewStale) as error:
        await parts.trail.refused(rpc, scope, path, ids, error.reason)
        raise
