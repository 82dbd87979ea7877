"""TruthVectors on PostgreSQL: memoryfs.item_vectors as it is, across tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoryos_postgres import Database, queries
from memoryos_postgres.transaction import Tx
from memoryos_vectors.adapters.pgvector import PgVectorIndex
from memoryos_vectors.halfvec import read_halfvec
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import IndexScope, Tier, VectorAnswer, VectorEntry, VectorQuery

QUERIES: Final = queries.load("memoryos_memoryfs", "sql/index_copy.sql")
_TIERS: Final = {1: Tier.HOT, 2: Tier.COLD}


class PgTruthVectors:
    """The vectors, each call in a transaction of its own."""

    def __init__(self, database: Database, models: IndexedModels) -> None:
        self._database = database
        self._models = models

    async def counts(self, model_id: str) -> Mapping[str, int]:
        """See `TruthVectors.counts`."""
        async with self._database.unscoped() as tx:
            rows = await tx.fetch_all(QUERIES["vector_counts"], {"model_id": model_id})
        return {row["tenant"]: row["held"] for row in rows}

    async def page(self, tenant: str, model_id: str, after_id: str, limit: int) -> Sequence[VectorEntry]:
        """See `TruthVectors.page`."""
        params = {"tenant": tenant, "model_id": model_id, "after_id": after_id, "limit": limit}
        async with self._database.unscoped() as tx:
            return [_entry(row) for row in await tx.fetch_all(QUERIES["vector_page"], params, binary=True)]

    async def of(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, VectorEntry]:
        """See `TruthVectors.of`."""
        async with self._database.unscoped() as tx:
            found = await current_vectors(tx, tenant, item_ids)
        return {entry.item_id: entry for entry in found.get(model_id, ())}

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        """See `TruthVectors.search`."""
        async with self._database.unscoped() as tx:
            return await PgVectorIndex(tx, self._models).search(scope, query)


async def current_vectors(tx: Tx, tenant: str, item_ids: Sequence[str]) -> dict[str, list[VectorEntry]]:
    """Give what PostgreSQL keeps of the items, by model."""
    found: dict[str, list[VectorEntry]] = defaultdict(list)
    params = {"tenant": tenant, "item_ids": list(item_ids)}
    for row in await tx.fetch_all(QUERIES["current_vectors"], params, binary=True):
        found[row["model_id"]].append(_entry(row))
    return found


def _entry(row: Mapping[str, Any]) -> VectorEntry:
    return VectorEntry(
        item_id=row["item_id"],
        revision=row["revision"],
        path_id=row["path_id"],
        acl=tuple(row["acl"]),
        vector=read_halfvec(row["vec"]),
        tier=_TIERS[row["tier"]],
    )
