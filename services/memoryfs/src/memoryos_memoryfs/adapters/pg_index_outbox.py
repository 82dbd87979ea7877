"""IndexOutbox and BackendState on PostgreSQL: names across tenants, no content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from memoryos_postgres import Database
from memoryos_postgres.transaction import Tx
from memoryos_vectors.ports import VectorEntry
from memoryos_vectors.qdrant_config import QdrantSection

from memoryos_memoryfs.adapters.pg_truth_vectors import QUERIES, current_vectors
from memoryos_memoryfs.ports.index import Backend, Backends, Backlog, ClaimedChanges, NamedChange, Phase

_TENANTS_MAX: Final = 50
"""Tenants that one claim serves; the next claim goes on after them."""


class _Claim:
    """Changes under the locks of one transaction."""

    def __init__(self, tx: Tx, changes: Sequence[NamedChange], section: QdrantSection) -> None:
        self._tx = tx
        self._section = section
        self.changes = changes

    async def truth(self, tenant: str, item_ids: Sequence[str]) -> Mapping[str, Sequence[VectorEntry]]:
        """See `ClaimedChanges.truth`."""
        return await current_vectors(self._tx, tenant, item_ids)

    async def done(self, changes: Sequence[NamedChange]) -> None:
        """See `ClaimedChanges.done`."""
        rows = [(change.tenant, change.item_id, seq) for change in changes for seq in change.seqs]
        tenants, item_ids, seqs = ([row[n] for row in rows] for n in range(3))
        await self._tx.execute(QUERIES["forget_changes"], {"tenants": tenants, "item_ids": item_ids, "seqs": seqs})

    async def put_off(self, change: NamedChange, reason: str) -> bool:
        """See `ClaimedChanges.put_off`."""
        rows = await self._tx.fetch_all(
            QUERIES["put_off_changes"],
            {
                "tenant": change.tenant,
                "item_id": change.item_id,
                "seqs": list(change.seqs),
                "attempts": change.attempts,
                "attempts_max": self._section.copy_attempts_max,
                "delay_s": self._section.copy_retry_s,
                "reason": reason,
            },
        )
        return any(row["failed"] for row in rows)


class PgIndexOutbox:
    """The outbox as one worker sees it; several may work on it."""

    def __init__(self, database: Database, section: QdrantSection) -> None:
        self._database = database
        self._section = section
        self._after = ""

    def claim(self, limit: int) -> AbstractAsyncContextManager[ClaimedChanges]:
        """See `IndexOutbox.claim`."""
        return self._claim(limit)

    @asynccontextmanager
    async def _claim(self, limit: int) -> AsyncIterator[ClaimedChanges]:
        async with self._database.unscoped() as tx:
            rows = await self._due(tx, limit)
            changes = [NamedChange(row["tenant"], row["item_id"], tuple(row["seqs"]), row["attempts"]) for row in rows]
            self._after = max((change.tenant for change in changes), default="")
            yield _Claim(tx, changes, self._section)

    async def _due(self, tx: Tx, limit: int) -> list[dict[str, Any]]:
        """Give the due rows of the tenants after the last one served; from the first one on when there are none."""
        for after in dict.fromkeys((self._after, "")):
            params = {"after": after, "tenants": _TENANTS_MAX, "limit": limit}
            rows = await tx.fetch_all(QUERIES["claim_changes"], params)
            if rows:
                return rows
        return []

    async def name_all(self, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
        """See `IndexOutbox.name_all`."""
        async with self._database.unscoped() as tx:
            row = await tx.fetch_one(
                QUERIES["name_all"], {"after_tenant": after[0], "after_id": after[1], "limit": limit}
            )
        return None if row is None else (row["tenant"], row["item_id"])

    async def pending(self, tenant: str, item_ids: Sequence[str]) -> frozenset[str]:
        """See `IndexOutbox.pending`."""
        async with self._database.unscoped() as tx:
            rows = await tx.fetch_all(QUERIES["pending_of"], {"tenant": tenant, "item_ids": list(item_ids)})
        return frozenset(row["item_id"] for row in rows)

    async def name(self, tenant: str, item_ids: Sequence[str]) -> None:
        """See `IndexOutbox.name`."""
        async with self._database.unscoped() as tx:
            await tx.execute(QUERIES["name_some"], {"tenant": tenant, "item_ids": list(item_ids)})

    async def backlog(self, tenant: str | None) -> Backlog:
        """See `IndexOutbox.backlog`."""
        async with self._database.unscoped() as tx:
            row = await tx.fetch_one(QUERIES["backlog"], {"tenant": tenant})
        assert row is not None
        return Backlog(**row)


class PgBackendState:
    """The one row of memoryfs.index_backends."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self) -> Backends:
        """See `BackendState.get`."""
        async with self._database.unscoped() as tx:
            return await TxBackends(tx).get()

    async def change(self, before: Backends, after: Backends) -> bool:
        """See `BackendState.change`."""
        async with self._database.unscoped() as tx:
            return await TxBackends(tx).change(before, after)


class TxBackends:
    """BackendState inside a transaction, with which a change is committed."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    async def get(self) -> Backends:
        """See `BackendState.get`."""
        row = await self._tx.fetch_one(QUERIES["backends"])
        assert row is not None
        return Backends(
            configured=Backend(row["configured"]),
            serving=Backend(row["serving"]),
            feeding=row["feeding"],
            phase=Phase(row["phase"]),
            target=Backend(row["target"]) if row["target"] else None,
        )

    async def change(self, before: Backends, after: Backends) -> bool:
        """See `BackendState.change`."""
        old = {f"old_{name}": value for name, value in _columns(before).items()}
        await self._tx.execute(QUERIES["wait_briefly"])
        await self._tx.execute(QUERIES["quiesce_vectors"])
        changed = await self._tx.execute(QUERIES["change_backends"], {**_columns(after), **old}) == 1
        if changed and not after.feeding:
            await self._tx.execute(QUERIES["clear_outbox"])
        return changed


def _columns(state: Backends) -> dict[str, Any]:
    return {
        "configured": state.configured.value,
        "serving": state.serving.value,
        "feeding": state.feeding,
        "phase": int(state.phase),
        "target": "" if state.target is None else state.target.value,
    }
