"""VectorIndex on PostgreSQL, in the item's own transaction. The table is memoryfs.item_vectors.

The rule is an exact index-only scan of the tenant's rows, without HNSW and
quantisation: recall is 1.0 and latency does not depend on how few rows the
reader may see (1,000 rows of a tenant 0.5 ms, 10,000 rows 5 ms). A tenant of
more than some 20,000 rows has a partial HNSW index of its own (see
pgvector_upkeep.py); that is asked where many rows match, and the exact scan
again where it finds too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from memoryos_postgres import copy_binary, queries
from memoryos_postgres.database import array_literal
from memoryos_postgres.transaction import Tx
from numpy.typing import NDArray

from memoryos_vectors.adapters.pgvector_routes import FEW, AnnRoutes
from memoryos_vectors.halfvec import HalfVec, halfvec_fields, read_halfvec
from memoryos_vectors.models import IndexedModels, newest
from memoryos_vectors.ports import (
    Exactness,
    IndexScope,
    Tier,
    Vector,
    VectorAnswer,
    VectorEntry,
    VectorHit,
    VectorQuery,
)

_QUERIES = queries.load("memoryos_vectors")
_TIERS = {Tier.HOT: 1, Tier.COLD: 2}
_COPY_MIN = 8
"""COPY costs one round trip more than an INSERT; it wins from about this many rows on."""
_TIES = 16
"""Entries asked beyond the limit: the index gives equal scores in any order, and near ones not quite in order."""


class PgVectorIndex:
    """The index as one transaction sees it; made anew for every transaction."""

    def __init__(self, tx: Tx, models: IndexedModels, routes: AnnRoutes | None = None) -> None:
        """Without `routes` every search is exact."""
        self._tx = tx
        self._models = models
        self._routes = routes

    async def upsert(self, tenant: str, model_id: str, entries: Sequence[VectorEntry], *, fresh: bool = False) -> None:
        """See `VectorIndex.upsert`; many fresh entries go by COPY."""
        entries = newest(entries)
        if not entries:
            return
        matrix = self._models.check(model_id, [entry.vector for entry in entries])
        if fresh and len(entries) >= _COPY_MIN:
            await self._tx.copy_whole(_QUERIES["copy"], _stream(tenant, model_id, entries, matrix))
            return
        rows = [_row(tenant, model_id, entry) for entry in entries]
        if fresh:
            for row in rows:
                self._tx.defer(_QUERIES["insert"], row)  # travels with COMMIT
        else:
            await self._tx.execute(
                _QUERIES["delete_older"],
                {
                    "tenant": tenant,
                    "model_id": model_id,
                    "item_ids": [entry.item_id for entry in entries],
                    "revisions": [entry.revision for entry in entries],
                },
            )
            await self._tx.executemany(_QUERIES["insert_absent"], rows)

    async def delete(self, tenant: str, item_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`."""
        return await self._tx.execute(_QUERIES["delete"], {"tenant": tenant, "item_ids": list(item_ids)})

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        """See `VectorIndex.search`; exact but for many matching rows of a tenant that has an index of its own.

        The route is chosen here by the number of matching rows: the planner
        does not know what looking on in an HNSW index costs. A filter's answer
        and cold entries are always searched exactly.
        """
        self._models.check(query.model_id, [query.vector])
        params, conditions = _conditions(scope, query)
        routes = self._routes
        plain = query.allowed_ids is None and not query.include_cold
        if routes is None or not plain or not await routes.indexed(self._tx, scope.tenant, query.model_id):
            return await self._compared(params, conditions)
        bound = max(routes.section.exact_below, query.limit)
        what = (scope.tenant, query.model_id, scope.principal_ids, query.path_ids, query.excluded_ids, bound)
        if not routes.many(what):
            if await self._matching({**params, "bound": bound + 1}, conditions) <= bound:
                return await self._compared(params, conditions, FEW)
            routes.note_many(what)
        answer = await self._near(params, conditions, query, bound + 1)
        return answer if len(answer.hits) == query.limit else await self._compared(params, conditions)

    async def _compared(
        self, params: Mapping[str, Any], conditions: str, plan: Mapping[str, str] | None = None
    ) -> VectorAnswer:
        """Compare every matching row."""
        statement = _QUERIES["search"].replace("/*conditions*/", conditions)
        if plan is None:
            row = await self._tx.fetch_one(statement, params, binary=True)
        else:
            (row,) = await self._tx.fetch_planned(plan, statement, params)
        assert row is not None
        return _answer(row, row["compared_count"], Exactness.EXACT)

    async def _matching(self, params: Mapping[str, Any], conditions: str) -> int:
        statement = _QUERIES["matching"].replace("/*conditions*/", conditions)
        (row,) = await self._tx.fetch_planned(FEW, statement, params)
        matching: int = row["matching"]
        return matching

    async def _near(
        self, params: Mapping[str, Any], conditions: str, query: VectorQuery, matching: int
    ) -> VectorAnswer:
        """Ask the tenant's own index."""
        assert self._routes is not None
        statement = _QUERIES["search_near"].replace("/*conditions*/", conditions)
        statement = statement.replace("/*dimensions*/", str(len(query.vector)))
        wider = {**params, "limit": query.limit + _TIES}
        (row,) = await self._tx.fetch_planned(self._routes.near, statement, wider)
        answer = _answer(row, matching, Exactness.APPROXIMATE)
        return replace(answer, hits=answer.hits[: query.limit])

    async def vectors(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, Vector]:
        """See `VectorIndex.vectors`."""
        rows = await self._tx.fetch_all(
            _QUERIES["vectors"], {"tenant": tenant, "model_id": model_id, "item_ids": list(item_ids)}, binary=True
        )
        return {row["item_id"]: read_halfvec(row["vec"]) for row in rows}


def _stream(tenant: str, model_id: str, entries: Sequence[VectorEntry], matrix: NDArray[np.float32]) -> bytes:
    """Give the rows of item_vectors as one binary COPY."""
    of_tenant, of_model = copy_binary.text(tenant), copy_binary.text(model_id)
    vectors = halfvec_fields(matrix)
    rows = (
        (
            of_tenant,
            copy_binary.text(entry.item_id),
            copy_binary.int8(entry.revision),
            of_model,
            copy_binary.int4(entry.path_id),
            copy_binary.int4s(entry.acl),
            copy_binary.int2(_TIERS[entry.tier]),
            vector,
        )
        for entry, vector in zip(entries, vectors, strict=True)
    )
    return copy_binary.whole(rows, fields=8)


def _row(tenant: str, model_id: str, entry: VectorEntry) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "item_id": entry.item_id,
        "revision": entry.revision,
        "model_id": model_id,
        "path_id": entry.path_id,
        "acl": list(entry.acl),
        "tier": _TIERS[entry.tier],
        "vec": HalfVec(entry.vector),
    }


def _conditions(scope: IndexScope, query: VectorQuery) -> tuple[dict[str, Any], str]:
    """Give the parameters of a search, and the conditions that not every search has."""
    tiers = [Tier.HOT, Tier.COLD] if query.include_cold else [Tier.HOT]
    params: dict[str, Any] = {
        "tenant": scope.tenant,
        "model_id": query.model_id,
        "tiers": _integers(_TIERS[tier] for tier in tiers),
        "principal_ids": _integers(sorted(scope.principal_ids)),
        "vector": HalfVec(query.vector),
        "limit": query.limit,
        "score_ids": array_literal(query.score_ids),
    }
    conditions = ""
    if query.path_ids is not None:
        conditions += " AND path_id = ANY (%(path_ids)s::int4[])"
        params["path_ids"] = _integers(sorted(query.path_ids))
    if query.allowed_ids is not None:
        conditions += " AND item_id = ANY (%(allowed_ids)s::text[])"
        params["allowed_ids"] = array_literal(tuple(sorted(query.allowed_ids)))
    if query.excluded_ids:
        conditions += " AND item_id <> ALL (%(excluded_ids)s::text[])"
        params["excluded_ids"] = sorted(query.excluded_ids)
    return params, conditions


def _integers(values: Iterable[int]) -> str:
    """Give the text form of an array: the driver walks a list element by element in Python."""
    return "{" + ",".join(map(str, values)) + "}"


def _answer(row: Mapping[str, Any], compared_count: int, exactness: Exactness) -> VectorAnswer:
    found = zip(row["ids"] or (), row["revisions"] or (), row["scores"] or (), strict=True)
    hits = [VectorHit(item_id, revision, _clamped(score)) for item_id, revision, score in found]
    hits.sort(key=lambda hit: (-hit.score, hit.item_id))  # clamping can make neighbours equal
    asked = zip(row["asked_ids"] or (), row["asked_scores"] or (), strict=True)
    return VectorAnswer(
        hits=tuple(hits),
        compared_count=compared_count,
        exactness=exactness,
        scores={item_id: _clamped(score) for item_id, score in asked},
    )


def _clamped(score: float) -> float:
    """Give a cosine without the rounding that leaves -1..1."""
    return 1.0 if score > 1.0 else -1.0 if score < -1.0 else score
