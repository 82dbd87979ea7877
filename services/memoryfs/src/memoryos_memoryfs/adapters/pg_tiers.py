"""Hot and cold: where the index entries of items lie."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_postgres import queries
from memoryos_postgres.transaction import Tx

from memoryos_memoryfs.domain.items import Cause, State, Tier

_QUERIES = queries.load("memoryos_memoryfs", "sql/upkeep.sql")
_NOTE = queries.load("memoryos_memoryfs", "sql/items.sql")["note_changes"]
ACTOR = "service:memoryfs"
"""Who acts where no caller does."""


async def move_tier(tx: Tx, tenant: str, ids: Sequence[str], tier: Tier) -> int:
    """Put the entries of active items that lie in the other tier into this one; give their number.

    No revision comes of it, and no index is written again but for the rows that move.
    """
    other = Tier.HOT if tier is Tier.COLD else Tier.COLD
    named = {"tenant": tenant, "ids": sorted(ids)}
    rows = await tx.fetch_all(_QUERIES["lock_active"], {**named, "tier": int(other)})
    moved = {"tenant": tenant, "ids": [row["id"] for row in rows]}
    if not rows:
        return 0
    await tx.execute(_QUERIES["set_tier"], {**moved, "tier": int(tier)})
    # Words before vectors, as everywhere.
    await tx.execute(_QUERIES["cool_tokens" if tier is Tier.COLD else "warm_tokens"], moved)
    await tx.execute(_QUERIES["set_vector_tier"], {**moved, "tier": int(tier)})
    active = [int(State.ACTIVE)] * len(rows)
    stamp = {"actor": ACTOR, "cause": int(Cause.TIER), "trace_id": ""}
    await tx.execute(_NOTE, {**moved, **stamp, "from_states": active, "to_states": active})
    return len(rows)
