"""A recalled item with how it was found, and what is said of a whole answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from memoryos_memoryfs.domain.items import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One recalled item; without a query it has no score."""

    item: Item
    score: float = 0.0
    dense: float | None = None
    lexical: float | None = None
    beside: float = 0.0
    """What the turns beside it in its session added to the score."""
    rerank: float | None = None
    """What the reranker said of it."""
    recency: float | None = None
    importance: float | None = None
    use: float | None = None
    """Parts that a boost counted, see domain/ranking.py."""


class Exactness(IntEnum):
    """Whether an answer is the best there is; numbers of the proto."""

    EXACT = 1
    APPROXIMATE = 2
    TRUNCATED = 3


class Degradation(IntEnum):
    """A part of recall that did not take part; numbers of the proto."""

    NO_DENSE = 1
    PENDING_VECTORS = 2
    INDEX_FALLBACK = 3
    RERANK_SKIPPED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The answer of a Read."""

    hits: list[Hit]
    exactness: Exactness
    degradations: tuple[Degradation, ...] = ()
