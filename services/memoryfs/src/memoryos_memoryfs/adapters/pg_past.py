"""Past on PostgreSQL: a point is a snapshot of transactions, so no transaction stays open while an export runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_postgres import Database, queries
from memoryos_postgres.transaction import Row
from memoryos_vectors.halfvec import HalfVec, read_halfvec
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.adapters.array_params import array_params
from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.places import place_of
from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.domain.items import Cause, Item
from memoryos_memoryfs.ports.transfer import PastItem, Point

_PAST = queries.load("memoryos_memoryfs", "sql/past.sql")
_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
_CURRENT_VECTORS = queries.load("memoryos_memoryfs", "sql/reads.sql")["vectors_anywhere"]


class PgPast:
    """The past of one database."""

    def __init__(self, database: Database, shared: Shared) -> None:
        self._database = database
        self._shared = shared

    async def point(self, scope: Scope, path: MemoryPath, *, by_user: bool) -> Point:
        """See `Past.point`."""
        async with self._database.scoped(scope) as tx:
            session = Session(shared=self._shared, tx=tx, scope=scope)
            place = await place_of(session, path)
            row = await tx.fetch_one(
                _PAST["point"],
                {
                    "tenant": scope.tenant,
                    "path_ids": list(place.path_ids),
                    "clearance": scope.clearance,
                    "now": self._shared.clock.now(),
                    "by_user": by_user,
                },
            )
        assert row is not None
        return Point(row["snapshot"], tuple(row["ids"]))

    async def items(
        self, scope: Scope, point: Point, ids: Sequence[str], *, vectors: bool, history: bool
    ) -> list[PastItem]:
        """See `Past.items`."""
        async with self._database.scoped(scope) as tx:
            session = Session(shared=self._shared, tx=tx, scope=scope)
            params: dict[str, Any] = {"tenant": scope.tenant, "ids": list(ids), "clearance": scope.clearance}
            today = {row["id"] for row in await tx.fetch_all(_PAST["readable_today"], params)}
            rows = await tx.fetch_all(
                _PAST["past_items"], {**params, "point": point.snapshot, "history": history}, binary=True
            )
            rows = [row for row in rows if row["id"] in today and row["sensitivity"] <= scope.clearance]
            kept = await self._vectors(session, rows) if vectors else {}
            items = await PgItems(session).opened(rows)
        by_id: dict[str, list[Item]] = {}
        for item in sorted(items, key=lambda item: item.revision):
            by_id.setdefault(item.id, []).append(item)
        return [
            PastItem(item, kept.get((item.id, item.revision))) for item_id in ids for item in by_id.get(item_id, ())
        ]

    async def _vectors(self, session: Session, rows: Sequence[Row]) -> dict[tuple[str, int], Vector]:
        params = {
            "tenant": session.tenant,
            "model_id": session.shared.model_id,
            "ids": sorted({row["id"] for row in rows}),
        }
        current = {row["id"]: row["revision"] for row in rows if row["current"]}
        found = await session.tx.fetch_all(_CURRENT_VECTORS, params, binary=True)
        kept = {(r["item_id"], current[r["item_id"]]): read_halfvec(r["vec"]) for r in found if r["item_id"] in current}
        for row in await session.tx.fetch_all(_QUERIES["revision_vectors"], params, binary=True):
            kept.setdefault((row["item_id"], row["revision"]), read_halfvec(row["vec"]))
        return kept


class PgPastRows:
    """Earlier revisions in the transaction of the items that an import makes."""

    def __init__(self, session: Session, items: PgItems) -> None:
        self._session = session
        self._items = items

    async def add(self, revisions: Sequence[tuple[PastItem, datetime]]) -> None:
        """See `PastRows.add`."""
        if not revisions:
            return
        session, tx = self._session, self._session.tx
        columns = await self._items.columns([past.item for past, _ in revisions])
        columns["replace_time"] = [replaced for _, replaced in revisions]
        await tx.execute(_PAST["insert_past"], {**array_params(columns), **self._items.stamp(Cause.IMPORT)})
        vectors = [
            {
                "tenant": session.tenant,
                "item_id": past.item.id,
                "revision": past.item.revision,
                "model_id": session.shared.model_id,
                "vec": HalfVec(past.vector),
            }
            for past, _ in revisions
            if past.vector is not None
        ]
        if vectors:
            await tx.executemany(_PAST["insert_past_vector"], vectors)
