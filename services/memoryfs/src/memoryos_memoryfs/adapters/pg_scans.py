"""Scans and Inspector on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from memoryos_core.scope import Scope
from memoryos_postgres import Database, queries
from memoryos_vectors.halfvec import read_halfvec
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.adapters.matching_ids import filter_sql
from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.places import place_of
from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.domain.items import Item, State, Tier
from memoryos_memoryfs.ports.reads import KnownThen
from memoryos_memoryfs.ports.storage import Look

_QUERIES: Final = queries.load("memoryos_memoryfs", "sql/reads.sql")


class PgScans:
    """What one transaction reads beside both arms."""

    def __init__(self, session: Session, items: PgItems) -> None:
        self._session = session
        self._items = items

    async def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        """See `Scans.vectors`."""
        params = {"tenant": self._session.tenant, "model_id": self._session.shared.model_id, "ids": list(ids)}
        rows = await self._session.tx.fetch_all(_QUERIES["vectors_anywhere"], params, binary=True)
        return {row["item_id"]: read_halfvec(row["vec"]) for row in rows}

    async def uses(self, ids: Sequence[str]) -> Mapping[str, int]:
        """See `Scans.uses`."""
        params = {"tenant": self._session.tenant, "ids": list(ids)}
        rows = await self._session.tx.fetch_all(_QUERIES["uses"], params)
        return {row["item_id"]: row["hits"] for row in rows}

    async def known_then(self, look: Look, at: datetime, *, limit: int, bytes_max: int) -> KnownThen:
        """See `Scans.known_then`."""
        session = self._session
        place = await place_of(session, *look.paths)
        condition, params = await filter_sql(session, look.where)
        tiers = (Tier.HOT, Tier.COLD) if look.include_cold else (Tier.HOT,)
        params |= {
            "tenant": session.tenant,
            "path_ids": list(place.path_ids),
            "states": [int(state) for state in look.states],
            "tiers": [int(tier) for tier in tiers],
            "clearance": session.scope.clearance,
            "valid_at": look.valid_at,
            "at": at,
            "now": session.shared.clock.now(),
            "limit": limit,
            "bytes_max": bytes_max,
        }
        await session.tx.set_local({"memoryos.known_then": "on"})
        rows = await session.tx.fetch_all(_QUERIES["known_then"].replace("/*filter*/", condition), params, binary=True)
        await session.tx.set_local({"memoryos.known_then": ""})
        more = bool(rows) and rows[0]["matching_count"] > len(rows)
        return KnownThen(await self._items.opened(rows), more)


class PgInspector:
    """Items of a tenant, whoever may read them."""

    def __init__(self, database: Database, shared: Shared) -> None:
        self._database = database
        self._shared = shared

    async def items(self, scope: Scope, ids: Sequence[str], as_of: datetime | None) -> Mapping[str, Item]:
        """See `Inspector.items`; the scope gives the tenant and nothing else."""
        params: dict[str, Any] = {"tenant": scope.tenant, "ids": list(ids), "at": as_of}
        async with self._database.upkeep(scope.tenant) as tx:
            items = PgItems(Session(shared=self._shared, tx=tx, scope=scope))
            today = await items.find(ids)
            if as_of is None:
                return today
            rows = await tx.fetch_all(_QUERIES["inspected_then"], params, binary=True)
            then = {item.id: item for item in await items.opened(rows)}
        gone = {row["id"] for row in rows if row["forgotten_then"]}
        return {
            item_id: _labelled(item, today[item_id], forgotten=item_id in gone)
            for item_id, item in then.items()
            if item_id in today
        }


def _labelled(then: Item, today: Item, *, forgotten: bool) -> Item:
    return replace(
        then,
        state=State.FORGOTTEN if forgotten or today.state is State.FORGOTTEN else then.state,
        owner=today.owner,
        readers=today.readers,
        sensitivity=today.sensitivity,
        expire_time=today.expire_time,
    )
