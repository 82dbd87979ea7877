"""What a Read asks for, parsed, and the trace that Explain keeps of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.filters import NO_FILTER, Filter
from memoryos_memoryfs.domain.hits import Hit
from memoryos_memoryfs.domain.items import State
from memoryos_memoryfs.domain.ranking import Boosts
from memoryos_memoryfs.ports.storage import Look

TOP_K_DEFAULT: Final = 10
_INVISIBLE: Final = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))
"""Characters without width, which str.strip leaves: a query of nothing else asks for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuery:
    """A parsed Read."""

    paths: tuple[MemoryPath, ...]
    text: str = ""
    top_k: int = TOP_K_DEFAULT
    where: Filter = NO_FILTER
    min_score: float = 0.0
    embedding_model: str = ""
    embedding: Sequence[float] | None = None
    deadline_s: float
    rerank: bool | None = None
    """Whether the reranker is asked; None: where there is one."""
    valid_at: datetime | None = None
    as_of: datetime | None = None
    include_cold: bool = False
    boosts: Boosts = field(default_factory=Boosts)
    diversity: float = 0.0

    @property
    def look(self) -> Look:
        """Give which items are meant; what was superseded is meant where it held at `valid_at`."""
        states = (State.ACTIVE,) if self.valid_at is None else (State.ACTIVE, State.SUPERSEDED)
        return Look(
            paths=self.paths,
            where=self.where,
            states=states,
            valid_at=self.valid_at,
            include_cold=self.include_cold,
        )

    @property
    def has_text(self) -> bool:
        """Tell whether the query holds anything beside space and characters without width."""
        return bool(self.text.translate(_INVISIBLE).strip())

    @property
    def asks(self) -> bool:
        """Tell whether anything is looked for; else the newest items are asked for."""
        return self.has_text or self.embedding is not None


@dataclass(slots=True)
class Trace:
    """What a Read came upon, for Explain: every item that might have been an answer, and those expected."""

    expected: frozenset[str]
    ranked: list[Hit] = field(default_factory=list)
    """What could have been served, best first; the answer is its beginning, as far as min_score and top_k let it."""
    scored: dict[str, Hit] = field(default_factory=dict)
    """Expected items that no arm named, with the score that they have all the same."""
