"""RevocationStore on PostgreSQL: the revocation, its audit row and the answer to its request are one transaction."""

from __future__ import annotations

import json
from datetime import datetime

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.canonical import canonical_json
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing
from memoryos_postgres import Database, revocations
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.transaction import Tx

from memoryos_harness.domain.revocations import Revocation
from memoryos_harness.ports import Request


class PostgresRevocations:
    """See `RevocationStore`."""

    def __init__(self, database: Database, keyring: KeyRing[Tx]) -> None:
        self._database = database
        self._keyring = keyring
        self._revocations = revocations.Revocations(keyring)
        self._idempotency = Idempotency(keyring)

    async def revoke(self, scope: Scope, subject: str, request: Request) -> Revocation:
        """See `RevocationStore.revoke`."""
        revocations.checked_subject(subject)
        async with self._database.scoped(scope) as tx:
            stored = await self._idempotency.begin(tx, scope, request.rpc, request.request_id, request.body)
            if stored is not None:
                return _from_answer(subject, stored)
            kept = _kept(await self._revocations.revoke(tx, scope, subject))
            await self._audit(tx, scope, subject, request)
            await self._idempotency.finish(tx, scope, request.rpc, request.request_id, _answer(kept))
            return kept

    async def restore(self, scope: Scope, subject: str, request: Request) -> None:
        """See `RevocationStore.restore`."""
        revocations.checked_subject(subject)
        async with self._database.scoped(scope) as tx:
            stored = await self._idempotency.begin(tx, scope, request.rpc, request.request_id, request.body)
            if stored is None:
                if await self._revocations.restore(tx, scope, subject):
                    await self._audit(tx, scope, subject, request)
                await self._idempotency.finish(tx, scope, request.rpc, request.request_id, b"")

    async def list_newest(self, scope: Scope) -> tuple[Revocation, ...]:
        """See `RevocationStore.list_newest`."""
        async with self._database.scoped(scope) as tx:
            return tuple(_kept(row) for row in await self._revocations.list(tx, scope))

    async def _audit(self, tx: Tx, scope: Scope, subject: str, request: Request) -> None:
        """Record who did it; the subject stands there as the hash that the revocation is kept under."""
        keys = await self._keyring.tenant_keys(tx, scope.tenant)
        event = AuditEvent(
            kind=Kind.ADMIN_ACT, actor=Actor.of(scope), service="harness", method=request.rpc,
            target_type="revocation", target_hmac=keys.audit_hmac(subject),
            target_ids=[subject] if subject.startswith("task_") else [],
        )  # fmt: skip
        record(tx, event)


def _kept(row: revocations.Revocation) -> Revocation:
    return Revocation(subject=row.subject, actor=row.actor, create_time=row.create_time)


def _answer(kept: Revocation) -> bytes:
    return canonical_json({"actor": kept.actor, "create_time": kept.create_time.isoformat()})


def _from_answer(subject: str, stored: bytes) -> Revocation:
    kept = json.loads(stored)
    return Revocation(subject=subject, actor=kept["actor"], create_time=datetime.fromisoformat(kept["create_time"]))
