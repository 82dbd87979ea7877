"""A DerivedIndex behind deadlines and a circuit breaker: whoever asks knows soon that it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from memoryos_vectors.breaker import Breaker
from memoryos_vectors.errors import IndexAbsent, IndexRefused, IndexUnavailable
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

T = TypeVar("T")


class GuardedIndex:
    """The same index; every call ends within its deadline, with `IndexUnavailable` when need be."""

    def __init__(self, inner: DerivedIndex, breaker: Breaker, *, search_s: float, write_s: float) -> None:
        self._inner = inner
        self.breaker = breaker
        """Closed: the index answered when it was last asked."""
        self._search_s = search_s
        self._write_s = write_s

    async def _within(self, call: Awaitable[T], limit_s: float) -> T:
        try:
            async with asyncio.timeout(limit_s):
                result = await call
        except (IndexAbsent, IndexRefused):
            self.breaker.succeeded()
            raise
        except (TimeoutError, IndexUnavailable) as error:
            self.breaker.failed()
            raise IndexUnavailable from error
        self.breaker.succeeded()
        return result

    def _check(self) -> None:
        if not self.breaker.allow():
            raise IndexUnavailable

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        """See `VectorIndex.search`."""
        self._check()
        return await self._within(self._inner.search(scope, query), self._search_s)

    async def upsert(self, tenant: str, model_id: str, entries: Sequence[VectorEntry], *, fresh: bool = False) -> None:
        """See `VectorIndex.upsert`."""
        self._check()
        await self._within(self._inner.upsert(tenant, model_id, entries, fresh=fresh), self._write_s)

    async def replace(
        self, tenant: str, model_id: str, entries: Sequence[VectorEntry], absent_ids: Sequence[str]
    ) -> None:
        """See `DerivedIndex.replace`."""
        self._check()
        await self._within(self._inner.replace(tenant, model_id, entries, absent_ids), self._write_s)

    async def delete(self, tenant: str, item_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`."""
        self._check()
        return await self._within(self._inner.delete(tenant, item_ids), self._write_s)

    async def vectors(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, Vector]:
        """See `VectorIndex.vectors`."""
        self._check()
        return await self._within(self._inner.vectors(tenant, model_id, item_ids), self._write_s)

    async def kept(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, KeptEntry]:
        """See `DerivedIndex.kept`."""
        self._check()
        return await self._within(self._inner.kept(tenant, model_id, item_ids), self._write_s)

    async def scan(self, tenant: str, model_id: str, *, position: str = "", limit: int = 1000) -> KeptPage:
        """See `DerivedIndex.scan`."""
        self._check()
        return await self._within(self._inner.scan(tenant, model_id, position=position, limit=limit), self._write_s)

    async def counts(self, model_id: str) -> Mapping[str, int]:
        """See `DerivedIndex.counts`."""
        self._check()
        return await self._within(self._inner.counts(model_id), self._write_s)

    async def exists(self) -> bool:
        """See `DerivedIndex.exists`."""
        self._check()
        return await self._within(self._inner.exists(), self._write_s)

    async def create(self) -> None:
        """See `DerivedIndex.create`."""
        self._check()
        await self._within(self._inner.create(), self._write_s)

    async def drop(self) -> None:
        """See `DerivedIndex.drop`."""
        self._check()
        await self._within(self._inner.drop(), self._write_s)

    async def close(self) -> None:
        """See `DerivedIndex.close`."""
        await self._inner.close()
