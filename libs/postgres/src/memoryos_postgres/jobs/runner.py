"""JobRunner: takes up due jobs, holds their leases, and ends them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.canonical import canonical_json
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import Code, MemoryOSError
from memoryos_core.sealing import key_id_of, open_sealed

from memoryos_postgres.jobs.model import JobState, input_place, unpack
from memoryos_postgres.jobs.run import Handler, JobCancelled, JobLost, JobRun, JobWaits
from memoryos_postgres.jobs.store import QUERIES, Jobs
from memoryos_postgres.transaction import Row

_log = logging.getLogger(__name__)
_OUTAGES: Final = frozenset({Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED, Code.ABORTED})
"""What may be over at the next try; an InternalError may be, too, but only a few times."""
_GIVEN_UP: Final = "JOB_GIVEN_UP"
_UNKNOWN_KIND_S: Final = 30.0
_RELEASE_S: Final = 5.0
_DUE_S: Final = 0.02
"""Look for what waited here so long after its time: clocks differ a little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Limits of a runner; every time is by the database clock."""

    lease_s: float = 30.0
    poll_s: float = 1.0
    running_max: int = 4
    per_tenant_max: int = 2
    faults_max: int = 5
    """Take-ups without coming further before a job has failed."""
    attempts_max: int = 1000
    """Take-ups in all, outages and ends of processes included."""
    retry_s: float = 1.0
    """Wait after the first failed try; doubles."""
    retry_max_s: float = 60.0


Traced = Callable[[str, str], AbstractContextManager[Any]]
"""Gives the span of a run, from the kind of the job and the trace parent it was started with."""


def _untraced(_kind: str, _parent: str) -> AbstractContextManager[Any]:
    return nullcontext()


class JobRunner:
    """Runs the jobs of one service, tenant by tenant in turns. Any number of processes may have one."""

    def __init__(
        self,
        jobs: Jobs,
        handlers: Mapping[str, Handler],
        settings: JobSettings | None = None,
        *,
        traced: Traced = _untraced,
    ) -> None:
        self._jobs = jobs
        self._database = jobs.database
        self._handlers = handlers
        self._settings = settings or JobSettings()
        self._traced = traced
        self._after = ""
        self._running: dict[asyncio.Task[None], str] = {}

    async def run_forever(self) -> None:
        """Take up and run jobs until cancelled; those that run then go back to the queue."""
        try:
            while True:
                try:
                    took = len(self._running) < self._settings.running_max and await self._take_one()
                except Exception:
                    _log.exception("the queue of jobs cannot be read")
                    took = False
                if not took:
                    await self._pause()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _pause(self) -> None:
        """Wait until a job ended or was started here, or until it is time to look again."""
        started = asyncio.create_task(self._jobs.started.wait())
        await asyncio.wait(
            {started, *self._running}, timeout=self._settings.poll_s, return_when=asyncio.FIRST_COMPLETED
        )
        if started.done():
            self._jobs.started.clear()
        started.cancel()

    async def _take_one(self) -> bool:
        row = await self._claim()
        if row is None:
            return False
        task = asyncio.create_task(self._work(row["tenant"], row["id"]))
        self._running[task] = row["tenant"]
        task.add_done_callback(self._running.pop)
        return True

    async def _claim(self) -> Row | None:
        """Give a due job of the next tenant that has not its share of this runner already."""
        shares = Counter(self._running.values())
        wanted = {
            "service": self._jobs.service,
            "lease_s": self._settings.lease_s,
            "busy": [tenant for tenant, count in shares.items() if count >= self._settings.per_tenant_max],
        }
        for after in dict.fromkeys((self._after, "")):
            async with self._database.unscoped() as tx:
                row = await tx.fetch_one(QUERIES["claim_due"], {**wanted, "after": after})
            if row is not None:
                self._after = row["tenant"]
                return row
        return None

    async def _work(self, tenant: str, job_id: str) -> None:
        try:
            row = await self._take_up(tenant, job_id)
            if row is not None:
                with self._traced(row["kind"], row["trace_parent"]):
                    await self._run(row)
        except JobLost:
            _log.info("job %s is in other hands", job_id)
        except Exception:
            _log.exception("job %s could not be run; its lease will run out", job_id)

    async def _take_up(self, tenant: str, job_id: str) -> Row | None:
        """Give the job under a new epoch; None when there is nothing to do for it here."""
        named = {"tenant": tenant, "id": job_id}
        async with self._database.tenant(tenant) as tx:
            kind = await tx.fetch_value(QUERIES["kind_of_job"], named)
            if kind is None:
                await tx.execute(QUERIES["not_due"], named)
                return None
            if kind not in self._handlers:  # of a newer release, whose processes are on their way
                await tx.execute(QUERIES["put_off_due"], {**named, "delay_s": _UNKNOWN_KIND_S})
                return None
            row = await tx.fetch_one(QUERIES["take_up"], named)
        if row is None:
            return None
        if row["faults"] <= self._settings.faults_max and row["attempts"] <= self._settings.attempts_max:
            return row
        if kind not in self._jobs.unstoppable:
            await self._end(row, JobState.FAILED, reason=_GIVEN_UP)
            return None
        if row["faults"] <= self._settings.faults_max:
            return row
        _log.error("job %s (%s) comes no further; it rests and goes on", row["id"], kind)
        await self._put_off(row, row["error_reason"], delay_s=self._settings.retry_max_s, forgiven=row["faults"])
        return None

    async def _run(self, row: Row) -> None:
        crash_point("jobs.run.taken_up")
        try:
            run = await self._opened(row)
            result = await self._handled(run)
        except JobLost:
            raise
        except JobWaits as wait:
            await self._put_off(row, "", delay_s=wait.delay_s, forgiven=1, takes=1)
            asyncio.get_running_loop().call_later(wait.delay_s + _DUE_S, self._jobs.started.set)
        except JobCancelled as stop:
            await self._end(row, JobState.CANCELLED, result=stop.result)
        except asyncio.CancelledError:
            with suppress(Exception):
                await asyncio.wait_for(self._put_off(row, "", delay_s=0.0, forgiven=1), _RELEASE_S)
            raise
        except Exception as error:
            await self._failed(row, error)
        else:
            crash_point("jobs.run.before_end")
            await self._end(row, JobState.SUCCEEDED, result=result)

    async def _opened(self, row: Row) -> JobRun:
        tenant = row["tenant"]
        async with self._database.tenant(tenant) as tx:
            key = await self._jobs.keyring.by_id(tx, tenant, key_id_of(row["input"]))
        scope, asked = unpack(open_sealed(key, row["input"], input_place(tenant, row["id"])))
        return JobRun(self._database, row, scope, asked)

    async def _handled(self, run: JobRun) -> Mapping[str, Any]:
        """Give the handler's result; the handler is stopped when the lease is lost meanwhile."""
        working = asyncio.ensure_future(self._handlers[run.kind](run))
        beating = asyncio.create_task(self._beat(run))
        try:
            await asyncio.wait({working, beating}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await beating  # raises JobLost
            return await working
        finally:
            for task in (working, beating):
                task.cancel()
            await asyncio.gather(working, beating, return_exceptions=True)

    async def _beat(self, run: JobRun) -> None:
        """Renew the lease again and again; end with JobLost."""
        named = {"tenant": run.tenant, "id": run.id, "epoch": run.epoch, "lease_s": self._settings.lease_s}
        while True:
            await asyncio.sleep(self._settings.lease_s / 3)
            try:
                async with self._database.tenant(run.tenant) as tx:
                    row = await tx.fetch_one(QUERIES["beat"], named)
            except MemoryOSError:
                _log.warning("the lease of job %s could not be renewed", run.id)
                continue
            if row is None:
                raise JobLost
            run.cancelled = row["cancel_requested"]

    async def _failed(self, row: Row, error: Exception) -> None:
        """End the job where trying again cannot help, else put it off."""
        known = isinstance(error, MemoryOSError)
        code = error.code if isinstance(error, MemoryOSError) else Code.INTERNAL
        reason = error.reason if isinstance(error, MemoryOSError) else "INTERNAL"
        if known and code not in _OUTAGES and code is not Code.INTERNAL:
            await self._end(row, JobState.FAILED, reason=reason)
            return
        blameless = code in _OUTAGES
        if not blameless:
            _log.error("job %s (%s) failed", row["id"], row["kind"], exc_info=error)
        faults = row["attempts"] if blameless else row["faults"]
        delay_s = min(self._settings.retry_s * 2 ** min(faults - 1, 20), self._settings.retry_max_s)
        await self._put_off(row, reason, delay_s=delay_s, forgiven=int(blameless))

    async def _put_off(self, row: Row, reason: str, *, delay_s: float, forgiven: int, takes: int = 0) -> None:
        """Give the job back for a while; `forgiven` faults and `takes` take-ups do not count against it."""
        values = {**_named(row), "reason": reason, "delay_s": delay_s, "forgiven": forgiven, "takes": takes}
        async with self._database.tenant(row["tenant"]) as tx:
            await tx.execute(QUERIES["put_off_job"], values)

    async def _end(
        self, row: Row, state: JobState, *, result: Mapping[str, Any] | None = None, reason: str = ""
    ) -> None:
        values = {
            **_named(row),
            "state": state,
            "reason": reason,
            "result": canonical_json(dict(result or {})).decode(),
        }
        async with self._database.tenant(row["tenant"]) as tx:
            if await tx.fetch_one(QUERIES["end_job"], values) is None:
                raise JobLost
            await tx.execute(QUERIES["not_due"], _named(row))


def _named(row: Row) -> dict[str, Any]:
    return {"tenant": row["tenant"], "id": row["id"], "epoch": row["epoch"]}
