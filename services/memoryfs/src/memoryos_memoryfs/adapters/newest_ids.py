"""The newest items that a reader may see, whoever else has how many.

First among the tenant's newest rows: that is where a reader with many items
finds them. One with few among many of others would walk far there, so after a
bounded look its own items are read in their own order, and what is shared with
it by who may read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memoryos_postgres import queries
from memoryos_vectors.adapters.pgvector_routes import FEW

from memoryos_memoryfs.adapters.places import Place
from memoryos_memoryfs.adapters.session import Session

_QUERIES = queries.load("memoryos_memoryfs", "sql/newest.sql")
LOOKED_AT_MAX: Final = 1_000
"""Rows of the tenant looked at first, some 0.5 ms."""
Position = tuple[datetime, str]
"""Creation time and id: the order of all lists."""


async def newest_ids(session: Session, place: Place, before: Position, limit: int) -> list[tuple[str, datetime]]:
    """Give id and creation time of the newest `limit` index rows after `before`; fewer when there are no more."""
    params: dict[str, Any] = {
        "tenant": session.tenant,
        "reader_ids": list(place.reader_ids),
        "path_ids": list(place.path_ids),
        "before_time": before[0],
        "before_id": before[1],
        "limit": limit,
    }
    looked_at_max = max(LOOKED_AT_MAX, 2 * limit)
    recent = await session.tx.fetch_all(_QUERIES["among_recent"], {**params, "looked_at_max": looked_at_max})
    if len(recent) == limit or (recent and recent[0]["looked_at"] < looked_at_max):
        return _pairs(recent)
    own = await session.tx.fetch_all(_QUERIES["own"], params)
    shared = await session.tx.fetch_planned(FEW, _QUERIES["shared"], params)
    both = {row["item_id"]: row["create_time"] for row in (*own, *shared)}
    return sorted(both.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)[:limit]


def _pairs(rows: Sequence[dict[str, Any]]) -> list[tuple[str, datetime]]:
    return [(row["item_id"], row["create_time"]) for row in rows]
