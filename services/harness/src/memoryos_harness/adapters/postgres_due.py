"""DueTasks on PostgreSQL: content-free rows over all tenants."""

from __future__ import annotations

from memoryos_postgres import Database

from memoryos_harness.adapters.task_rows import JOB, QUERIES, QUEUE


class PostgresDue:
    """See `DueTasks`."""

    def __init__(self, database: Database, *, slots: int) -> None:
        self._database = database
        self._slots = slots

    async def wake_due(self, *, limit: int, quiet_s: float) -> int:
        """See `DueTasks.wake_due`."""
        async with self._database.unscoped() as tx:
            await tx.execute(QUERIES["due_of_gone_workers"])
        async with self._database.unscoped() as tx:
            rows = await tx.fetch_all(QUERIES["wake_due"], {"limit": limit, "quiet_s": quiet_s})
            rows += await tx.fetch_all(QUERIES["give_all_slots"], {"slots": self._slots, "quiet_s": quiet_s})
            for row in rows:
                job = {"queue": QUEUE, "task_name": JOB, "after_s": 0.0}
                tx.defer(QUERIES["defer_job"], {**job, "tenant": row["tenant"], "task_id": row["task_id"]})
            return len(rows)

    async def note_sweep(self) -> None:
        """See `DueTasks.note_sweep`."""
        async with self._database.unscoped() as tx:
            await tx.execute(QUERIES["note_sweep"])

    async def since_sweep_s(self) -> float:
        """See `DueTasks.since_sweep_s`."""
        async with self._database.unscoped() as tx:
            return float(await tx.fetch_value(QUERIES["since_sweep"], {}))

    async def clear_lost_jobs(self, *, silent_s: float) -> int:
        """See `DueTasks.clear_lost_jobs`."""
        async with self._database.unscoped() as tx:
            return await tx.execute(QUERIES["clear_lost_jobs"], {"silent_s": silent_s})
