"""What every operation is given by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from memoryos_core.clock import Clock
from memoryos_core.ids import IdSource
from memoryos_models.ports import ChatModel, Embedder, Reranker
from memoryos_postgres.jobs import Jobs

from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.ports.erasure import ErasureParts
from memoryos_memoryfs.ports.index import IndexParts
from memoryos_memoryfs.ports.reads import Inspector
from memoryos_memoryfs.ports.storage import HitCounter, ReadTrail, Storage
from memoryos_memoryfs.ports.transfer import ChangeFeed, Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranking:
    """The reranker with its limits."""

    model: Reranker
    texts_max: int
    """Best hits that it judges."""
    timeout_s: float
    """Longest wait for it."""


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
    chat: ChatModel | None = None
    """Writes the text of merged items; None where none is configured."""
    index: IndexParts
    erasure: ErasureParts
    jobs: Jobs
    inspector: Inspector
    reranking: Reranking | None = None
