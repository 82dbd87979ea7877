"""Upkeep of index and statistics, apart from any call: content-free, across tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Final

from memoryos_postgres import Database, queries
from memoryos_vectors.adapters.pgvector import PgVectorIndex
from memoryos_vectors.models import IndexedModels

from memoryos_memoryfs.adapters.pg_tiers import move_tier
from memoryos_memoryfs.domain.items import Tier
from memoryos_memoryfs.ports.storage import Use

_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
_TIERS = queries.load("memoryos_memoryfs", "sql/upkeep.sql")
NOTED_MAX: Final = 50_000
"""Items whose hits wait to be counted; further ones are not counted: statistics, not truth."""
SWEPT_MAX: Final = 1_000
"""Expired index rows removed in one transaction."""


class PgUpkeep:
    """Counts hits and removes index rows of expired items."""

    def __init__(self, database: Database, models: IndexedModels) -> None:
        self._database = database
        self._models = models
        self._hits: Counter[tuple[str, str]] = Counter()
        self._flushing: Counter[tuple[str, str]] = Counter()

    def note(self, tenant: str, ids: Iterable[str]) -> None:
        """See `HitCounter.note`; kept in memory until `flush`."""
        if len(self._hits) < NOTED_MAX:
            self._hits.update((tenant, item_id) for item_id in ids)

    def noted(self, tenant: str, ids: Iterable[str]) -> bool:
        """See `HitCounter.noted`."""
        return any((tenant, item_id) in self._hits or (tenant, item_id) in self._flushing for item_id in ids)

    async def used(self, tenant: str, item_id: str) -> Use:
        """See `HitCounter.used`; hits that wait in this process are counted, without a time."""
        async with self._database.unscoped() as tx:
            row = await tx.fetch_one(_QUERIES["access_of"], {"tenant": tenant, "item_id": item_id})
        waiting = self._hits.get((tenant, item_id), 0)
        return Use((row["hits"] if row else 0) + waiting, row["last_time"] if row else None)

    async def flush(self) -> None:
        """Write the counts down; what was cold is hot again by its use."""
        hits, self._hits = self._hits, Counter()
        self._flushing = hits
        for tenant, group in groupby(sorted(hits.items()), key=lambda entry: entry[0][0]):
            counts = {item_id: count for (_, item_id), count in group}
            async with self._database.upkeep(tenant) as tx:  # what was erased since it was read has no row any more
                await tx.execute(
                    _QUERIES["note_access"],
                    {"tenant": tenant, "ids": list(counts), "hits": list(counts.values())},
                )
                cold = await tx.fetch_all(_TIERS["cold_among"], {"tenant": tenant, "ids": list(counts)})
            if cold:
                async with self._database.upkeep(tenant) as tx:
                    await move_tier(tx, tenant, [row["item_id"] for row in cold], Tier.HOT)
        self._flushing = Counter()

    async def sweep(self, now: datetime) -> int:
        """Remove index rows of items that are not served any more; give their number, at most `SWEPT_MAX`."""
        async with self._database.unscoped() as tx:
            rows = await tx.fetch_all(_QUERIES["sweep_expired"], {"now": now, "limit": SWEPT_MAX})
            rows.sort(key=itemgetter("tenant"))
            for tenant, group in groupby(rows, key=itemgetter("tenant")):
                ids = [row["item_id"] for row in group]
                await PgVectorIndex(tx, self._models).delete(tenant, ids)
                await tx.execute(_QUERIES["dequeue_embeds"], {"tenant": tenant, "ids": ids})
        return len(rows)
