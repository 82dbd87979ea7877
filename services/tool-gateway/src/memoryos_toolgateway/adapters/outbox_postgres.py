"""ports.Outbox in PostgreSQL: what is due is leased, so that two replicas do not send it at once."""

from __future__ import annotations

from typing import Final

from memoryos_postgres import Database

from memoryos_toolgateway.adapters.journal_rows import QUERIES
from memoryos_toolgateway.ports import Told

LEASE_S: Final = 30.0
"""Longer than one sending takes; a notice of a sender that died comes again after it."""


class PostgresOutbox:
    """ports.Outbox on toolgateway.notices and their queue."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, limit: int) -> list[Told]:
        """Lease what is due; see ports.Outbox."""
        async with self._database.unscoped() as tx:
            due = await tx.fetch_all(QUERIES["due_notices"], {"limit": limit, "lease_s": LEASE_S})
        found = []
        for entry in due:
            params = {"tenant": entry["tenant"], "notice_id": entry["notice_id"]}
            async with self._database.tenant(entry["tenant"]) as tx:
                row = await tx.fetch_one(QUERIES["try_notice"], params)
                if row is None:
                    tx.defer(QUERIES["unqueue_notice"], params)
                    continue
                found.append(Told(**row))
        return found

    async def later(self, told: Told, pause_s: float) -> None:
        """Send it again after a pause; see ports.Outbox."""
        params = {"tenant": told.tenant, "notice_id": told.id, "pause_s": pause_s}
        async with self._database.tenant(told.tenant) as tx:
            await tx.execute(QUERIES["put_notice_off"], params)

    async def done(self, told: Told) -> None:
        """Forget a notice; see ports.Outbox."""
        params = {"tenant": told.tenant, "notice_id": told.id}
        async with self._database.tenant(told.tenant) as tx:
            tx.defer(QUERIES["forget_notice"], params)
            tx.defer(QUERIES["unqueue_notice"], params)
