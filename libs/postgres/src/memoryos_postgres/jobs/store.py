"""Jobs as their callers use them: start, look, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from memoryos_core.errors import JobNotFound
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_core.sealing import seal

from memoryos_postgres import queries
from memoryos_postgres.database import Database
from memoryos_postgres.jobs.model import MANAGERS, Job, input_place, pack
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_postgres.transaction import Tx

QUERIES = queries.load("memoryos_postgres", "jobs.sql")


class Jobs:
    """The jobs of one service.

    `trace_parent` gives the trace that runs here, which the job continues; `on_cancel` is called in the
    transaction of a cancellation (to record it). A job of an
    `unstoppable` kind goes on all the same, and is never given up.
    """

    def __init__(
        self,
        database: Database,
        service: str,
        keyring: PostgresKeyRing,
        ids: IdSource,
        *,
        trace_parent: Callable[[], str] = lambda: "",
        unstoppable: frozenset[str] = frozenset(),
        on_cancel: Callable[[Tx, Scope, str], None] = lambda _tx, _scope, _job_id: None,
    ) -> None:
        self.database = database
        self.service = service
        self.keyring = keyring
        self._ids = ids
        self._trace_parent = trace_parent
        self._on_cancel = on_cancel
        self.unstoppable = unstoppable
        self.started = asyncio.Event()
        """Set when this process has started a job: its runner need not wait for its next look."""

    async def start(self, tx: Tx, scope: Scope, kind: str, asked: bytes, *, subject: str | None = None) -> str:
        """Give the name of a new job; it is there, and begins, once the caller's transaction is committed.

        What was `asked` is sealed with the scope under the key of the caller's
        user, or of `subject`, until the job ends. It runs under that scope.
        """
        job_id = self._ids.new("job")
        key = await self.keyring.subject_key(tx, scope.tenant, scope.user if subject is None else subject)
        sealed = seal(key, pack(scope, asked), input_place(scope.tenant, job_id))
        named = {"tenant": scope.tenant, "id": job_id, "service": self.service}
        row = {**named, "kind": kind, "user": scope.user, "input": sealed, "trace_parent": self._trace_parent()}
        tx.defer(QUERIES["start_job"], row)
        tx.defer(QUERIES["make_due"], named)
        tx.on_commit(self.started.set)
        return job_id

    async def get(self, scope: Scope, job_id: str) -> Job:
        """Give a job; JobNotFound unless the caller started it or sees all jobs of the tenant."""
        async with self.database.scoped(scope) as tx:
            return Job.of(await self._find(tx, scope, job_id))

    async def page(
        self, scope: Scope, *, kind: str = "", before: tuple[datetime, str] | None = None, limit: int
    ) -> list[Job]:
        """Give the newest jobs that the caller sees, after the position `before`."""
        async with self.database.scoped(scope) as tx:
            time, job_id = before or (None, "")
            wanted = {"kind": kind, "before_time": time, "before_id": job_id, "limit": limit}
            rows = await tx.fetch_all(QUERIES["list_jobs"], {**await self._seen(tx, scope), **wanted})
        return [Job.of(row) for row in rows]

    async def page_secret(self, scope: Scope) -> bytes:
        """Give the tenant's key for page tokens."""
        async with self.database.scoped(scope) as tx:
            return (await self.keyring.tenant_keys(tx, scope.tenant)).pages

    async def cancel(self, scope: Scope, job_id: str) -> Job:
        """Ask a job to stop; one that waits has ended with the answer, one that has ended stays as it is."""
        async with self.database.scoped(scope) as tx:
            await self._find(tx, scope, job_id)
            named = {"tenant": scope.tenant, "id": job_id}
            state = await tx.fetch_value(QUERIES["cancel_job"], {**named, "unstoppable": sorted(self.unstoppable)})
            if state is not None:
                self._on_cancel(tx, scope, job_id)
            if state is not None and Job.of(await self._find(tx, scope, job_id)).state.ended:
                await tx.execute(QUERIES["not_due"], named)
            return Job.of(await self._find(tx, scope, job_id))

    async def _find(self, tx: Tx, scope: Scope, job_id: str) -> dict[str, Any]:
        row = await tx.fetch_one(QUERIES["find_job"], {**await self._seen(tx, scope), "id": job_id})
        if row is None:
            raise JobNotFound
        return row

    async def _seen(self, tx: Tx, scope: Scope) -> dict[str, Any]:
        """Give the conditions of what the caller sees. An erased user's jobs carry the user's keyed hash."""
        keys = await self.keyring.tenant_keys(tx, scope.tenant)
        return {
            "tenant": scope.tenant,
            "service": self.service,
            "all": not MANAGERS.isdisjoint(scope.roles),
            "users": [scope.user, keys.audit_hmac(scope.user)],
        }
