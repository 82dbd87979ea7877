"""Idempotency and audit of MemoryFS."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_audit import Actor, AuditEvent, Kind, Outcome, ReadRecorder, record
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.sealing import TenantKeys

from memoryos_memoryfs.adapters.seen_facts import SeenFacts
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.domain.session_trust import facts_of

SERVICE = "memoryfs"
_NOT_FOUND = "ITEM_NOT_FOUND"


def _event(
    kind: Kind,
    rpc: str,
    scope: Scope,
    keys: TenantKeys | None,
    path: MemoryPath | None,
    ids: Sequence[str],
    reason: str = "",
) -> AuditEvent:
    return AuditEvent(
        kind=kind,
        actor=Actor.of(scope),
        service=SERVICE,
        method=rpc,
        outcome=Outcome.ERROR if reason else Outcome.OK,
        reason=reason,
        target_type="item",
        target_ids=ids,
        target_hmac=keys.audit_hmac(str(path)) if keys and path else "",
    )


class PgJournal:
    """The journal of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def replay(self, rpc: str, request_id: str, body: bytes) -> bytes | None:
        """See `Journal.replay`."""
        session = self._session
        return await session.shared.idempotency.begin(session.tx, session.scope, rpc, request_id, body)

    async def claim(self, rpc: str, request_id: str, body: bytes, answer: bytes) -> None:
        """See `Journal.claim`."""
        session = self._session
        await session.shared.idempotency.claim(session.tx, session.scope, rpc, request_id, body, answer)

    async def keep(self, rpc: str, request_id: str, answer: bytes, *, subject: str | None = None) -> None:
        """See `Journal.keep`."""
        session = self._session
        await session.shared.idempotency.finish(session.tx, session.scope, rpc, request_id, answer, subject=subject)

    async def audit(self, rpc: str, path: MemoryPath, ids: Sequence[str]) -> None:
        """See `Journal.audit`."""
        keys = await self._session.keys()
        record(self._session.tx, _event(Kind.MEMORY_WRITE, rpc, self._session.scope, keys, path, ids))

    async def audit_admin(self, rpc: str, target: str) -> None:
        """See `Journal.audit_admin`."""
        event = AuditEvent(
            kind=Kind.ADMIN_ACT,
            actor=Actor.of(self._session.scope),
            service=SERVICE,
            method=rpc,
            outcome=Outcome.OK,
            target_type="index",
            target_ids=[target],
        )
        record(self._session.tx, event)


class AuditReads:
    """ReadTrail: rows of concurrent reads share a commit."""

    def __init__(self, recorder: ReadRecorder, seen: SeenFacts) -> None:
        self._recorder = recorder
        self._seen = seen

    async def gave(
        self,
        rpc: str,
        scope: Scope,
        path: MemoryPath | None,
        items: Sequence[Item],
        *,
        ids: Sequence[str] | None = None,
    ) -> None:
        """See `ReadTrail.gave`; a round trip more where the session sees something for the first time."""
        await self._seen.keep(scope, facts_of(scope, items))
        await self.record(rpc, scope, path, [item.id for item in items] if ids is None else ids)

    async def record(
        self, rpc: str, scope: Scope, path: MemoryPath | None, ids: Sequence[str], *, found: bool = True
    ) -> None:
        """See `ReadTrail.record`; the path of a read is not kept, its items are."""
        reason = "" if found else _NOT_FOUND
        await self._recorder.record(_event(Kind.MEMORY_READ, rpc, scope, None, path, ids, reason))

    async def refused(self, rpc: str, scope: Scope, path: MemoryPath | None, ids: Sequence[str], reason: str) -> None:
        """See `ReadTrail.refused`."""
        await self._recorder.record(_event(Kind.MEMORY_WRITE, rpc, scope, None, path, ids, reason))
