"""LifecycleUpkeep on PostgreSQL: tenants from a queue of names, each change in a transaction of one tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memoryos_core.scope import Scope
from memoryos_postgres import Database, queries

from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.pg_tiers import move_tier
from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.domain.items import Cause, State, Tier
from memoryos_memoryfs.domain.place_keys import subtree_end
from memoryos_memoryfs.ports.lifecycle import UpkeepRun

_QUERIES = queries.load("memoryos_memoryfs", "sql/upkeep.sql")
CHUNK: Final = 500
"""Items changed in one transaction."""
_CLEARANCE_MAX: Final = 9


def upkeep_scope(tenant: str) -> Scope:
    """Give the scope of work that no caller asked for."""
    return Scope(
        tenant=tenant,
        user="upkeep",
        principals=("upkeep",),
        clearance=_CLEARANCE_MAX,
        roles=frozenset(),
        chain=(),
        session_id="",
        task_id="",
        read_paths=None,
        write_paths=None,
    )


class PgLifecycle:
    """Upkeep of tiers, retention and budgets of one process; several processes share the queue."""

    def __init__(self, database: Database, shared: Shared) -> None:
        self._database = database
        self._shared = shared

    async def claim(self, every_s: float) -> str | None:
        """See `LifecycleUpkeep.claim`."""
        async with self._database.unscoped() as tx:
            row = await tx.fetch_one(_QUERIES["claim_tenant"], {"every_s": every_s})
        return None if row is None else str(row["tenant"])

    async def enlist(self) -> None:
        """See `LifecycleUpkeep.enlist`."""
        async with self._database.unscoped() as tx:
            await tx.execute(_QUERIES["enlist_tenants"])

    async def end(self, tenant: str, run: UpkeepRun) -> None:
        """See `LifecycleUpkeep.end`."""
        async with self._database.unscoped() as tx:
            await tx.execute(
                _QUERIES["end_run"],
                {
                    "tenant": tenant,
                    "duration_s": run.duration_s,
                    "cold_count": run.cold_count,
                    "expired_count": run.expired_count,
                    "evicted_count": run.evicted_count,
                    "last_reason": run.reason,
                },
            )

    async def cool(self, tenant: str, now: datetime) -> int:
        """See `LifecycleUpkeep.cool`."""
        params = {"tenant": tenant, "now": now, "limit": CHUNK, "hot_window": self._shared.defaults.hot_window}
        async with self._database.upkeep(tenant) as tx:
            rows = await tx.fetch_all(_QUERIES["unused_ids"], params)
            return await move_tier(tx, tenant, [row["id"] for row in rows], Tier.COLD)

    async def expire(self, tenant: str, now: datetime) -> int:
        """See `LifecycleUpkeep.expire`."""
        params = {"tenant": tenant, "now": now, "limit": CHUNK, "retention": self._shared.defaults.retention}
        return await self._forget(tenant, "outlived_ids", params, Cause.EXPIRE)

    async def budgets(self, tenant: str) -> Sequence[tuple[bytes, int]]:
        """See `LifecycleUpkeep.budgets`."""
        async with self._database.upkeep(tenant) as tx:
            rows = await tx.fetch_all(_QUERIES["budgets"], {"tenant": tenant}, binary=True)
        return [(bytes(row["key"]), row["keep_max"]) for row in rows]

    async def evict(self, tenant: str, key: bytes, keep_max: int, now: datetime) -> int:
        """See `LifecycleUpkeep.evict`."""
        params = {"tenant": tenant, "start": key, "end": subtree_end(key), "keep_max": keep_max, "now": now}
        return await self._forget(tenant, "least_worth_ids", {**params, "limit": CHUNK}, Cause.EVICT)

    async def _forget(self, tenant: str, query: str, params: dict[str, Any], cause: Cause) -> int:
        async with self._database.upkeep(tenant) as tx:
            session = Session(shared=self._shared, tx=tx, scope=upkeep_scope(tenant), upkeep=True)
            items = PgItems(session)
            rows = await tx.fetch_all(_QUERIES[query], params)
            locked = await items.lock([row["id"] for row in rows])
            going = [item for item in locked.values() if item.state is not State.FORGOTTEN]
            if going:
                await items.set_state(going, State.FORGOTTEN, cause)
            return len(going)
