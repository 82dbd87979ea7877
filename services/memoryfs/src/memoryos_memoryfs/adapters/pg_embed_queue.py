"""EmbedQueue on PostgreSQL: names across tenants, items as their owner only."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_core.scope import Scope
from memoryos_postgres import Database, queries
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.adapters.pg_index import IndexRows
from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.domain.items import EmbedState, Item, State
from memoryos_memoryfs.ports.storage import DueEmbed, Written

_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
_CLEARANCE_MAX = 9


def _owner_scope(tenant: str, owner: str) -> Scope:
    """Give the scope in which the worker reads: the owner alone, without a role."""
    return Scope(
        tenant=tenant,
        user=owner.removeprefix("user:"),
        principals=(owner,),
        clearance=_CLEARANCE_MAX,
        roles=frozenset(),
        chain=(),
        session_id="",
        task_id="",
        read_paths=None,
        write_paths=None,
    )


class PgEmbedQueue:
    """The queue of one process; several processes may work on it, a vector kept twice is kept once."""

    def __init__(self, database: Database, shared: Shared, section: MemoryFSSection) -> None:
        self._database = database
        self._shared = shared
        self._section = section

    async def due(self, limit: int) -> list[DueEmbed]:
        """See `EmbedQueue.due`."""
        async with self._database.unscoped() as tx:
            rows = await tx.fetch_all(_QUERIES["due_embeds"], {"limit": limit})
        return [DueEmbed(row["tenant"], row["item_id"], row["owner"], row["attempts"]) for row in rows]

    async def load(self, rows: Sequence[DueEmbed]) -> dict[str, Item]:
        """See `EmbedQueue.load`."""
        scope = _owner_scope(rows[0].tenant, rows[0].owner)
        async with self._database.scoped(scope) as tx:
            session = Session(shared=self._shared, tx=tx, scope=scope)
            found = await PgItems(session).find([row.item_id for row in rows])
            waiting = {item.id: item for item in found.values() if _waits(item)}
            done = [row.item_id for row in rows if row.item_id not in waiting]
            if done:
                await tx.execute(_QUERIES["dequeue_embeds"], {"tenant": scope.tenant, "ids": done})
        return waiting

    async def keep(self, items: Sequence[Item], vectors: Sequence[Vector]) -> int:
        """See `EmbedQueue.keep`."""
        scope = _owner_scope(items[0].path.tenant, items[0].owner)
        made = {item.id: (item.revision, vector) for item, vector in zip(items, vectors, strict=True)}
        async with self._database.scoped(scope) as tx:
            session = Session(shared=self._shared, tx=tx, scope=scope)
            locked = await PgItems(session).lock(list(made))
            # One that has changed meanwhile has a queue row of its own, or a vector.
            same = [item for item in locked.values() if _waits(item) and made[item.id][0] == item.revision]
            ids = [item.id for item in same]
            await IndexRows(session).put_vectors(
                [Written(item=item, words={}, vector=made[item.id][1]) for item in same]
            )
            params = {"tenant": scope.tenant, "ids": ids}
            await tx.execute(_QUERIES["embedded_items"], {**params, "model_id": self._shared.model_id})
            await tx.execute(_QUERIES["dequeue_embeds"], params)
        return len(same)

    async def put_off(self, rows: Sequence[DueEmbed], reason: str) -> int:
        """See `EmbedQueue.put_off`."""
        given_up = 0
        async with self._database.unscoped() as tx:
            for tenant in sorted({row.tenant for row in rows}):
                found = await tx.fetch_all(
                    _QUERIES["put_off_embeds"],
                    {
                        "tenant": tenant,
                        "ids": [row.item_id for row in rows if row.tenant == tenant],
                        "reason": reason,
                        "delay_s": self._section.embed_retry_s,
                        "attempts_max": self._section.embed_attempts_max,
                    },
                )
                given_up += sum(row["failed"] for row in found)
        return given_up


def _waits(item: Item) -> bool:
    return item.state is State.ACTIVE and item.embed_state is EmbedState.PENDING
