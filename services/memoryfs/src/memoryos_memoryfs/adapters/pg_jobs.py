"""Jobs started inside a caller's transaction."""

from __future__ import annotations

from memoryos_postgres.jobs import Jobs

from memoryos_memoryfs.adapters.session import Session


class PgJobs:
    """JobStarter of one transaction."""

    def __init__(self, session: Session, jobs: Jobs) -> None:
        self._session = session
        self._jobs = jobs

    async def start(self, kind: str, asked: bytes, *, subject: str | None = None) -> str:
        """See `JobStarter.start`."""
        return await self._jobs.start(self._session.tx, self._session.scope, kind, asked, subject=subject)
