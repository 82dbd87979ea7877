"""Faults around the port of a derived index, as a network and a server give them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memoryos_vectors.errors import IndexRefused, IndexUnavailable
from memoryos_vectors.ports import (
    DerivedIndex,
    IndexScope,
    KeptEntry,
    KeptPage,
    Vector,
    VectorAnswer,
    VectorEntry,
    VectorQuery,
)


@dataclass
class FaultyIndex:
    """The index within, and switches for what goes wrong on the way to it."""

    inner: DerivedIndex
    down: bool = False
    """Nothing arrives."""
    slow_s: float = 0.0
    """Every call takes so much longer."""
    half: bool = False
    """Of what is written only the first half arrives, and the answer is lost."""
    twice: bool = False
    """Everything that is written arrives twice."""
    lost_answers: int = 0
    """So many more writes arrive whole, and their answers are lost."""
    poison: frozenset[str] = field(default_factory=frozenset)
    """Items that the index refuses."""
    late: list[tuple[str, str, list[VectorEntry]]] = field(default_factory=list)
    """What `hold_back` has kept from arriving."""
    hold_back: bool = False
    """Writes seem to time out, and arrive when the test says `deliver`."""
    searches: int = 0
    writes: int = 0

    async def _fail(self) -> None:
        if self.slow_s:
            await asyncio.sleep(self.slow_s)  # what a test of slowness is about, never how it waits
        if self.down:
            raise IndexUnavailable

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        """See `VectorIndex.search`."""
        self.searches += 1
        await self._fail()
        return await self.inner.search(scope, query)

    async def upsert(self, tenant: str, model_id: str, entries: Sequence[VectorEntry], *, fresh: bool = False) -> None:
        """See `VectorIndex.upsert`."""
        await self.replace(tenant, model_id, entries, ())

    async def replace(
        self, tenant: str, model_id: str, entries: Sequence[VectorEntry], absent_ids: Sequence[str]
    ) -> None:
        """See `DerivedIndex.replace`."""
        self.writes += 1
        await self._fail()
        if self.poison.intersection([*(entry.item_id for entry in entries), *absent_ids]):
            raise IndexRefused
        if self.hold_back:
            self.late.append((tenant, model_id, list(entries)))
            raise IndexUnavailable
        if self.half and len(entries) + len(absent_ids) > 1:
            await self.inner.replace(tenant, model_id, entries[: len(entries) // 2], absent_ids[: len(absent_ids) // 2])
            raise IndexUnavailable
        for _ in range(2 if self.twice else 1):
            await self.inner.replace(tenant, model_id, entries, absent_ids)
        if self.lost_answers:
            self.lost_answers -= 1
            raise IndexUnavailable

    async def delete(self, tenant: str, item_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`."""
        self.writes += 1
        await self._fail()
        removed = await self.inner.delete(tenant, item_ids)
        if self.twice:
            await self.inner.delete(tenant, item_ids)
        return removed

    async def vectors(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, Vector]:
        """See `VectorIndex.vectors`."""
        await self._fail()
        return await self.inner.vectors(tenant, model_id, item_ids)

    async def kept(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, KeptEntry]:
        """See `DerivedIndex.kept`."""
        await self._fail()
        return await self.inner.kept(tenant, model_id, item_ids)

    async def scan(self, tenant: str, model_id: str, *, position: str = "", limit: int = 1000) -> KeptPage:
        """See `DerivedIndex.scan`."""
        await self._fail()
        return await self.inner.scan(tenant, model_id, position=position, limit=limit)

    async def counts(self, model_id: str) -> Mapping[str, int]:
        """See `DerivedIndex.counts`."""
        await self._fail()
        return await self.inner.counts(model_id)

    async def exists(self) -> bool:
        """See `DerivedIndex.exists`."""
        await self._fail()
        return await self.inner.exists()

    async def create(self) -> None:
        """See `DerivedIndex.create`."""
        await self._fail()
        await self.inner.create()

    async def drop(self) -> None:
        """See `DerivedIndex.drop`."""
        await self._fail()
        await self.inner.drop()

    async def close(self) -> None:
        """See `DerivedIndex.close`."""
        await self.inner.close()


async def deliver(faulty: FaultyIndex) -> None:
    """Let arrive what was held back."""
    late, faulty.late = faulty.late, []
    for tenant, model_id, entries in late:
        await faulty.inner.upsert(tenant, model_id, entries)
