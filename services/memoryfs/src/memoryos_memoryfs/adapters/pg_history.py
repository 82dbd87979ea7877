"""History on PostgreSQL: revisions under row-level security, and the changes of state between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from memoryos_core.paths import MemoryPath
from memoryos_postgres import queries
from memoryos_postgres.transaction import Row
from memoryos_vectors.halfvec import read_halfvec
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.changes import Change
from memoryos_memoryfs.domain.items import Cause, Item, State, Tier
from memoryos_memoryfs.domain.place_keys import path_key, subtree_end
from memoryos_memoryfs.domain.points import Former, Mark
from memoryos_memoryfs.ports.history import Position

QUERIES: Final = queries.load("memoryos_memoryfs", "sql/history.sql")
_TIERS: Final = queries.load("memoryos_memoryfs", "sql/upkeep.sql")
_REVISION_MAX: Final = 2**62
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)


async def places_below(session: Session, path: MemoryPath) -> list[int]:
    """Give the numbers of the places at or below a path."""
    start = path_key((await session.keys()).tokens, path)
    params = {"tenant": session.tenant, "start": start, "end": subtree_end(start)}
    return [row["id"] for row in await session.tx.fetch_all(QUERIES["places_below"], params)]


class PgHistory:
    """What became of items, as one transaction sees it."""

    def __init__(self, session: Session, items: PgItems) -> None:
        self._session = session
        self._tx = session.tx
        self._items = items

    async def changes(self, item_id: str, before: Position | None, limit: int) -> list[Change]:
        """See `History.changes`."""
        revision, time = before or (_REVISION_MAX, None)
        params = {"tenant": self._session.tenant, "id": item_id, "limit": limit}
        # A page that ended at a change of state goes on with earlier ones and the making of the same revision.
        newest = revision if before is None or time is not None else revision - 1
        rows = await self._tx.fetch_all(QUERIES["revisions_of"], {**params, "revision": newest}, binary=True)
        items = {item.revision: item for item in await self._items.opened(rows)}
        made = [_made(row, items[row["revision"]]) for row in rows if row["revision"] in items]
        where = {**params, "revision": revision, "time": time or _FIRST}
        changed = [_state_change(item_id, row) for row in await self._tx.fetch_all(QUERIES["state_changes_of"], where)]
        merged = sorted([*made, *changed], key=lambda c: (c.revision, c.item is None, c.at), reverse=True)
        return merged[:limit]

    async def revisions(self, named: Mapping[str, int]) -> dict[str, Former]:
        """See `History.revisions`."""
        rows = await self._named("find_revisions", named)
        back = {row["id"]: row["forgotten_from"] for row in rows}
        return {
            item.id: Former(item=item, forgotten_from=State(back[item.id]) if back[item.id] else None)
            for item in await self._items.opened(rows)
        }

    async def vectors(self, named: Mapping[str, int]) -> dict[str, Vector]:
        """See `History.vectors`."""
        rows = await self._named("vectors_of_revisions", named)
        return {row["item_id"]: read_halfvec(row["vec"]) for row in rows}

    async def touched(self, path: MemoryPath, point: str, *, after: str = "", limit: int) -> list[str]:
        """See `History.touched`."""
        rows = await self._tx.fetch_all(
            QUERIES["touched_since"],
            {
                "tenant": self._session.tenant,
                "path_ids": await places_below(self._session, path),
                "point": point,
                "after": after,
                "limit": limit,
            },
        )
        return [row["id"] for row in rows]

    async def marks(self, ids: Sequence[str], point: str) -> dict[str, list[Mark]]:
        """See `History.marks`."""
        params = {"tenant": self._session.tenant, "ids": list(ids), "point": point}
        found: dict[str, list[Mark]] = {}
        for row in await self._tx.fetch_all(QUERIES["marks_since"], params):
            found.setdefault(row["id"], []).append(_mark(row))
        return found

    async def move_tier(self, ids: Sequence[str], tier: Tier) -> None:
        """See `History.move_tier`."""
        named = {"tenant": self._session.tenant, "ids": sorted(ids)}
        await self._tx.run_deferred()  # words of items that this transaction restored are there to be moved
        await self._tx.execute(_TIERS["set_tier"], {**named, "tier": int(tier)})
        await self._tx.execute(_TIERS["cool_tokens" if tier is Tier.COLD else "warm_tokens"], named)
        await self._tx.execute(_TIERS["set_vector_tier"], {**named, "tier": int(tier)})
        await self._tx.execute(QUERIES["note_tiers"], {**named, **self._items.stamp(Cause.ROLLBACK)})

    async def around(self, items: Sequence[Item], limit: int) -> list[Item]:
        """See `History.around`."""
        named = {name for item in items for name in (*item.derived_from, item.superseded_by) if name}
        params = {
            "tenant": self._session.tenant,
            "ids": [item.id for item in items],
            "named": sorted(named),
            "limit": limit,
        }
        ids = [row["id"] for row in await self._tx.fetch_all(QUERIES["lineage_around"], params)]
        found = await self._items.find(ids)
        return [found[item_id] for item_id in ids if item_id in found]

    async def _named(self, query: str, named: Mapping[str, int]) -> list[Row]:
        if not named:
            return []
        params: dict[str, Any] = {"ids": list(named), "revisions": list(named.values())}
        params |= {"tenant": self._session.tenant, "model_id": self._session.shared.model_id}
        return await self._tx.fetch_all(QUERIES[query], params, binary=True)


def _made(row: Row, item: Item) -> Change:
    return Change(
        item_id=item.id,
        at=item.update_time,
        cause=Cause(row["cause"]),
        actor=row["actor"],
        trace_id=row["trace_id"],
        from_state=State(row["from_state"]) if row["from_state"] else None,
        to_state=State(row["made_state"]),
        revision=item.revision,
        item=item,
    )


def _state_change(item_id: str, row: Row) -> Change:
    return Change(
        item_id=item_id,
        at=row["change_time"],
        cause=Cause(row["cause"]),
        actor=row["actor"],
        trace_id=row["trace_id"],
        from_state=State(row["from_state"]),
        to_state=State(row["to_state"]),
        revision=row["revision"],
        item=None,
    )


def _mark(row: Row) -> Mark:
    return Mark(
        item_id=row["id"],
        revision=row["revision"],
        at=row["at"],
        actor=row["actor"],
        cause=Cause(row["cause"]),
        from_state=State(row["from_state"]) if row["from_state"] else None,
        to_state=State(row["to_state"]) if row["to_state"] else None,
    )
