"""The items that meet a filter, by the truth."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from memoryos_core.paths import Kind, MemoryPath
from memoryos_postgres import queries

from memoryos_memoryfs.adapters.places import Place
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.adapters.sql_filters import FilterKeys, owners_of, sql_of
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.filters import Filter
from memoryos_memoryfs.domain.items import State, Tier
from memoryos_memoryfs.domain.place_keys import path_key
from memoryos_memoryfs.ports.storage import Look

_QUERIES: Final = queries.load("memoryos_memoryfs", "sql/reads.sql")
AFTER_ALL: Final = (datetime.max.replace(tzinfo=UTC), "~")
"""A position after which every item comes ("~" sorts above every id)."""
_OWN_ONLY: Final = frozenset({State.CANDIDATE, State.FORGOTTEN})


async def filter_sql(session: Session, where: Filter) -> tuple[str, dict[str, Any]]:
    """Give the condition of a filter on rows of items or item_revisions, and its parameters."""
    tokens = (await session.keys()).tokens
    keys = FilterKeys(
        owners=await session.shared.names.numbers(session.tx, session.tenant, owners_of(where)),
        kinds={str(kind): path_key(tokens, MemoryPath(tenant=session.tenant, kind=kind)) for kind in Kind},
    )
    return sql_of(where, keys)


async def matching_ids(
    session: Session, place: Place, look: Look, *, before: tuple[datetime, str] | None = None, limit: int
) -> list[str]:
    """Give the ids of what may be served now and meets `look`, newest first.

    Candidates and forgotten items are given to their owner only.
    """
    owner = access.owner_of(session.scope)
    own_only = bool(_OWN_ONLY & set(look.states))
    numbers = await session.shared.names.numbers(session.tx, session.tenant, [owner]) if own_only else {}
    condition, params = await filter_sql(session, look.where)
    position = before or AFTER_ALL
    tiers = (Tier.HOT, Tier.COLD) if look.include_cold else (Tier.HOT,)
    rows = await session.tx.fetch_all(
        _QUERIES["matching_ids"].replace("/*filter*/", condition),
        {
            **params,
            "tenant": session.tenant,
            "path_ids": list(place.path_ids),
            "states": [int(state) for state in look.states],
            "tiers": [int(tier) for tier in tiers],
            "owner": numbers.get(owner, -1) if own_only else None,
            "now": session.shared.clock.now(),
            "clearance": session.scope.clearance,
            "valid_at": look.valid_at,
            "before_time": position[0],
            "before_id": position[1],
            "limit": limit,
        },
    )
    return [row["id"] for row in rows]
