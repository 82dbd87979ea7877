"""Jobs: long operations of services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from memoryos.jobs.v1 import jobs_pb2

from memoryos_sdk.errors import Unavailable
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.paging import Pager
from memoryos_sdk.results import Job, job


class Jobs(Calls):
    """What runs on after its call has been answered."""

    async def get(self, id: str) -> Job:
        """Give a job as it stands."""
        return job((await self._invocation.unary(self._stub.GetJob, jobs_pb2.GetJobRequest(id=id))).job)

    def list(self, *, kind: str = "") -> Pager[Job]:
        """Give jobs, newest first."""
        request = jobs_pb2.ListJobsRequest(kind=kind)
        return self._pager(self._stub.ListJobs, request, lambda answer: [job(one) for one in answer.jobs])

    async def wait(self, id: str, *, progress: Callable[[Job], None] | None = None) -> Job:
        """Give the job once it has ended, however it did; `progress` is called at every change."""
        attempt = 0
        while True:
            try:
                request = jobs_pb2.WatchJobRequest(id=id)
                async with aclosing(self._invocation.stream(self._stub.WatchJob, request)) as messages:
                    async for message in messages:
                        attempt, found = 0, job(message.job)
                        if progress:
                            progress(found)
                        if found.ended:
                            return found
            except Unavailable:
                attempt += 1
                if attempt >= self._invocation.retry.attempts_max:
                    raise
                await asyncio.sleep(self._invocation.retry.pause_s(attempt))

    async def cancel(self, id: str) -> Job:
        """Ask a job to stop at its next safe place."""
        return job((await self._invocation.unary(self._stub.CancelJob, jobs_pb2.CancelJobRequest(id=id))).job)
