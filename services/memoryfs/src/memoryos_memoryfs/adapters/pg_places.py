"""What lies below a path: counts by the index alone, and the names of places by an item of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_core.paths import MemoryPath
from memoryos_postgres import queries
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.place_keys import path_key, subtree_end
from memoryos_memoryfs.ports.namespace import ChildUsage, Tally, Usage

_QUERIES = queries.load("memoryos_memoryfs", "sql/namespace.sql")
_HASH_BYTES: Final = 8


class PgPlaces:
    """Places as one transaction sees them."""

    def __init__(self, session: Session, items: PgItems) -> None:
        self._session = session
        self._items = items
        self._tx = session.tx
        self._tenant = session.tenant

    async def tally(self, path: MemoryPath, *, children_max: int) -> Tally:
        """See `Places.tally`."""
        start = await self._key(path)
        owner = access.owner_of(self._session.scope)
        numbers = await self._session.shared.names.numbers(self._tx, self._tenant, [owner])
        rows = await self._tx.fetch_all(
            _QUERIES["tally"],
            {
                "tenant": self._tenant,
                "start": start,
                "end": subtree_end(start),
                "child_bytes": len(start) + _HASH_BYTES,
                "clearance": self._session.scope.clearance,
                "owner": numbers.get(owner, -1),
                "now": self._session.shared.clock.now(),
                # The whole, items of the place itself, and one more than wanted.
                "limit": children_max + 3 if children_max else 1,
            },
            binary=True,
        )
        below = [row for row in rows[1:] if len(row["child"]) > len(start)]
        return Tally(
            usage=_usage(rows[0]),
            children=await self._children(path, below[:children_max]),
            truncated=len(below) > children_max,
        )

    async def changeable(self, path: MemoryPath, *, limit: int) -> list[str]:
        """See `Places.changeable`."""
        start = await self._key(path)
        params = {"tenant": self._tenant, "start": start, "end": subtree_end(start), "limit": limit}
        return [row["id"] for row in await self._tx.fetch_all(_QUERIES["changeable_below"], params)]

    async def intern(self, paths: Sequence[MemoryPath]) -> None:
        """See `Places.intern`."""
        keys = [await self._key(path) for path in paths]
        await self._tx.execute(_QUERIES["intern_places"], {"tenant": self._tenant, "keys": keys})

    async def _children(self, path: MemoryPath, rows: Sequence[Row]) -> list[ChildUsage]:
        """Name each place by one of the items that were counted there; names stand in payloads only."""
        samples = await self._items.find([row["sample"] for row in rows])
        depth = len(path.segments) + 1
        return [
            ChildUsage(
                path=MemoryPath(path.tenant, path.kind, samples[row["sample"]].path.segments[:depth]),
                usage=_usage(row),
            )
            for row in rows
            if row["sample"] in samples
        ]

    async def _key(self, path: MemoryPath) -> bytes:
        return path_key((await self._session.keys()).tokens, path)


def _usage(row: Row) -> Usage:
    return Usage(
        active_count=row["active_count"],
        candidate_count=row["candidate_count"],
        superseded_count=row["superseded_count"],
        forgotten_count=row["forgotten_count"],
        cold_count=row["cold_count"],
        pending_count=row["pending_count"],
        content_bytes=row["content_bytes"],
        newest_time=row["newest_time"],
    )
