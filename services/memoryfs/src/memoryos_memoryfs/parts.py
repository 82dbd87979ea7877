"""What every operation is given by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from memoryos_core.clock import Clock
from memoryos_core.ids import IdSource
from memoryos_models.ports import Embedder

from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.ports import HitCounter, ReadTrail, Storage
from memoryos_memoryfs.transfer_ports import ChangeFeed, Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The adapters and settings of a running service."""

    storage: Storage
    feed: ChangeFeed
    past: Past
    trail: ReadTrail
    hits: HitCounter
    embedder: Embedder
    clock: Clock
    ids: IdSource
    section: MemoryFSSection
