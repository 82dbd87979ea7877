"""A job run as operations see it."""

from __future__ import annotations

from collections.abc import Mapping

from memoryos_postgres.jobs import JobRun


class RunProgress:
    """`Progress` of a job that runs in this process."""

    def __init__(self, run: JobRun) -> None:
        self._run = run

    async def at(self, phase: str, done: int, total: int, checkpoint: Mapping[str, object] | None = None) -> None:
        """See `Progress.at`; a safe place to stop."""
        await self._run.save(phase=phase, done=done, total=total, checkpoint=checkpoint)
        self._run.stop_if_cancelled()
