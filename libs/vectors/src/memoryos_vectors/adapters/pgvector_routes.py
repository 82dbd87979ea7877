"""Which tenants have an approximate index of their own, as one process knows it, and what it is asked with."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from memoryos_core.clock import Clock, SystemClock
from memoryos_postgres import queries
from memoryos_postgres.transaction import Tx

from memoryos_vectors.config import PgVectorSection

_QUERIES = queries.load("memoryos_vectors")
KNOWN_S: Final = 10.0
"""How long the list is believed. A stale one costs time, never an answer: either route is complete."""
MANY_S: Final = 60.0
"""How long it is believed that more rows match than are compared one by one: counting so far costs 12 ms of 100,000."""
_MANY_MAX: Final = 10_000
CUSTOM: Final = {"plan_cache_mode": "force_custom_plan"}
"""A plan made without the tenant's name does not know its partial indexes, nor how many rows there are."""
FEW: Final = {**CUSTOM, "enable_seqscan": "off", "enable_indexscan": "off", "enable_indexonlyscan": "off"}
"""Planned like this, a statement is answered by a bitmap of the rows that match, never by a walk of the tenant's."""


class AnnRoutes:
    """The list of one process, read anew from memoryfs.vector_indexes every `KNOWN_S`."""

    def __init__(self, section: PgVectorSection | None = None, clock: Clock | None = None) -> None:
        self.section = section or PgVectorSection()
        self._clock = clock or SystemClock()
        self._ready: frozenset[tuple[str, str]] = frozenset()
        self._until = float("-inf")
        self._many_until: dict[Hashable, float] = {}
        self.near: Mapping[str, str] = {
            **CUSTOM,
            # Only the HNSW index gives this order without a sort.
            "enable_sort": "off",
            "enable_seqscan": "off",
            "hnsw.ef_search": str(self.section.ef_search),
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": str(self.section.scan_tuples_max),
        }

    async def indexed(self, tx: Tx, tenant: str, model_id: str) -> bool:
        """Tell whether the tenant's vectors of this model have an approximate index that is complete."""
        now = self._clock.monotonic()
        if now >= self._until:
            self._until = now + KNOWN_S  # one of the concurrent calls asks
            rows = await tx.fetch_all(_QUERIES["ready_indexes"])
            self._ready = frozenset((row["tenant"], row["model_id"]) for row in rows)
        return (tenant, model_id) in self._ready

    def many(self, what: Hashable) -> bool:
        """Tell whether more rows than are compared one by one matched this a short time ago."""
        return self._clock.monotonic() < self._many_until.get(what, float("-inf"))

    def note_many(self, what: Hashable) -> None:
        """Keep for `MANY_S` that so many match. It may be untrue by then: either route is complete."""
        if len(self._many_until) >= _MANY_MAX:
            self._many_until.clear()
        self._many_until[what] = self._clock.monotonic() + MANY_S
