"""Jobs started inside a caller's transaction."""

from __future__ import annotations

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.scope import Scope
from memoryos_postgres.jobs import Jobs
from memoryos_postgres.transaction import Tx

from memoryos_memoryfs.adapters.pg_journal import SERVICE
from memoryos_memoryfs.adapters.session import Session


class PgJobs:
    """JobStarter of one transaction."""

    def __init__(self, session: Session, jobs: Jobs) -> None:
        self._session = session
        self._jobs = jobs

    async def start(self, kind: str, asked: bytes, *, subject: str | None = None) -> str:
        """See `JobStarter.start`."""
        return await self._jobs.start(self._session.tx, self._session.scope, kind, asked, subject=subject)


def record_cancel(tx: Tx, scope: Scope, job_id: str) -> None:
    """Record that a job was asked to stop, with the commit."""
    event = AuditEvent(
        kind=Kind.ADMIN_ACT,
        actor=Actor.of(scope),
        service=SERVICE,
        method="memoryos.jobs.v1.Jobs/CancelJob",
        target_type="job",
        target_ids=[job_id],
    )
    record(tx, event)
