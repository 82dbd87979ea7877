"""The dense arm of recall behind one small port.

An index entry holds no content: who may see it, where it is, and its vector.
What a search gives back are candidates, worthless until the truth is read
again under row-level security.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One row of unit length that fp16 holds exactly: what `memoryos_models.unit.unit_rows` gives."""


class Tier(StrEnum):
    """Which part of the index an entry is in."""

    HOT = "hot"
    COLD = "cold"


class Exactness(StrEnum):
    """Whether an answer is the best there is."""

    EXACT = "exact"
    """Every entry in scope was compared."""
    APPROXIMATE = "approximate"
    """An approximate index was asked."""


@dataclass(frozen=True, kw_only=True)
class IndexScope:
    """Tenant and readers of one call: no search without it (I1).

    `principal_ids` are the caller's principals by their interned number.
    Nobody (an empty set) may see nothing.
    """

    tenant: str
    principal_ids: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class VectorEntry:
    """What the index keeps of one revision of one item."""

    item_id: str
    revision: int
    path_id: int
    acl: tuple[int, ...]
    """Interned principals that may read it, the owner among them."""
    vector: Vector
    tier: Tier = Tier.HOT


@dataclass(frozen=True, kw_only=True)
class VectorQuery:
    """What to look for. Every condition given must hold."""

    model_id: str
    vector: Vector
    limit: int
    path_ids: frozenset[int] | None
    """Only entries of these places; None: every place of the tenant."""
    allowed_ids: frozenset[str] | None = None
    """Only these items (the answer of a filter); None: no such condition."""
    excluded_ids: frozenset[str] = frozenset()
    """Not these items: those that another index answers for."""
    include_cold: bool = False
    score_ids: tuple[str, ...] = ()
    """Items whose scores are wanted even where they are not among the best."""


class VectorHit(NamedTuple):
    """One entry found. `score` is the cosine similarity: -1..1, higher is better, 1 for an equal vector."""

    item_id: str
    revision: int
    score: float


@dataclass(frozen=True, kw_only=True)
class VectorAnswer:
    """The best entries, best first, equal scores by item id."""

    hits: tuple[VectorHit, ...]
    compared_count: int
    """Entries in scope that met every condition; at least so many where the answer is APPROXIMATE."""
    exactness: Exactness
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores of `score_ids`; one out of scope or without a vector of the model is absent."""


class VectorIndex(Protocol):
    """Entries of many tenants and models, searched within one scope and one model.

    An index is told at the start which models it holds and how long their
    vectors are; another model or length is `EmbeddingMismatch`, never an empty
    answer or a mixed one. An adapter that shares the truth's database is bound
    to a transaction: what it writes is committed or rolled back with the item.
    """

    async def upsert(self, tenant: str, model_id: str, entries: Sequence[VectorEntry], *, fresh: bool = False) -> None:
        """Keep the entries; each replaces its item's entry of that model.

        An entry older (by revision) than the one kept changes nothing, so a
        late retry cannot bring back an old text. `fresh` vouches that none of
        the items has an entry yet and is faster; the entries may be found only
        once the transaction has ended. Keeps none when one is
        refused: `EmbeddingMismatch`, or `VectorNotUnit` when its length is not 1.
        """
        ...

    async def delete(self, tenant: str, item_ids: Sequence[str]) -> int:
        """Remove every entry of the items, of all models, and give their number; unknown ids are passed over."""
        ...

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        """Give up to `limit` entries in scope nearest to the vector, under all conditions.

        Asking for k where k or more are in scope gives k, however few they are
        among the tenant's. Raises `EmbeddingMismatch` or `VectorNotUnit`.
        """
        ...

    async def vectors(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, Vector]:
        """Give the kept vectors of the items; for rewriting an entry, never for callers."""
        ...


@dataclass(frozen=True, kw_only=True)
class KeptEntry:
    """What a derived index says that it keeps of one item."""

    item_id: str
    revision: int
    path_id: int
    acl: tuple[int, ...]
    tier: Tier
    vector: Vector | None
    """Only where it was asked for."""


@dataclass(frozen=True, kw_only=True)
class KeptPage:
    """A part of what a derived index keeps, in its own order."""

    entries: tuple[KeptEntry, ...]
    next_position: str
    """Where the next page begins; empty after the last one."""


class DerivedIndex(VectorIndex, Protocol):
    """A VectorIndex outside the truth's database: a copy, brought up to date after the commit.

    A call returns once what it wrote can be found. `IndexUnavailable`: it may
    or may not have been carried out, and may still be; the same call again is
    always right. `IndexRefused`: it will never be carried out. `IndexAbsent`:
    the copy is lost or was never made; `create` makes an empty one.
    """

    async def exists(self) -> bool:
        """Tell whether there is a collection for every model; raises `IndexUnavailable`."""
        ...

    async def create(self) -> None:
        """Make what is missing of the collections and their payload indexes, empty."""
        ...

    async def drop(self) -> None:
        """Remove the collections and all they hold; fine where there are none."""
        ...

    async def replace(
        self, tenant: str, model_id: str, entries: Sequence[VectorEntry], absent_ids: Sequence[str]
    ) -> None:
        """Keep the entries as `upsert` does and remove those of `absent_ids`, of this model."""
        ...

    async def kept(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, KeptEntry]:
        """Give what is kept of the items, with vectors."""
        ...

    async def scan(self, tenant: str, model_id: str, *, position: str = "", limit: int = 1000) -> KeptPage:
        """Give a page of what is kept of a tenant, without vectors."""
        ...

    async def counts(self, model_id: str) -> Mapping[str, int]:
        """Give the number of entries of every tenant that has any; 100,000 tenants at most."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...
