"""Jobs on the wire: GetJob, ListJobs, WatchJob, CancelJob."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import grpc
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos_core.canonical import canonical_json
from memoryos_core.errors import InvalidPageToken
from memoryos_core.paging import PageTokens
from memoryos_core.times import from_micros, micros_of
from memoryos_grpc.caller import scope
from memoryos_postgres.jobs import Job, Jobs

from memoryos_memoryfs.messages import stamp_of

_LIST: Final = "memoryos.jobs.v1.Jobs/ListJobs"
_PAGE_SIZE_DEFAULT: Final = 50
_LOOK_S: Final = 0.25
"""How often a watched job is looked at."""


class JobsServicer(jobs_pb2_grpc.JobsServicer):
    """Who may see which job is `Jobs`' rule."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def GetJob(
        self, request: jobs_pb2.GetJobRequest, context: grpc.aio.ServicerContext
    ) -> jobs_pb2.GetJobResponse:
        """See the proto."""
        return jobs_pb2.GetJobResponse(job=job_message(await self._jobs.get(scope(), request.id)))

    async def ListJobs(
        self, request: jobs_pb2.ListJobsRequest, context: grpc.aio.ServicerContext
    ) -> jobs_pb2.ListJobsResponse:
        """See the proto."""
        who = scope()
        tokens = PageTokens(await self._jobs.page_secret(who))
        binding = request.kind.encode()
        before = None
        position = tokens.decode(who, _LIST, binding, request.page_token)
        if position is not None:
            micros, job_id = position
            if not isinstance(micros, int) or not isinstance(job_id, str):
                raise InvalidPageToken
            before = (from_micros(micros), job_id)
        size = request.page_size or _PAGE_SIZE_DEFAULT
        found = await self._jobs.page(who, kind=request.kind, before=before, limit=size + 1)
        page, token = found[:size], ""
        if len(found) > size:
            token = tokens.encode(who, _LIST, binding, (micros_of(page[-1].create_time), page[-1].id))
        return jobs_pb2.ListJobsResponse(jobs=[job_message(job) for job in page], next_page_token=token)

    async def WatchJob(
        self, request: jobs_pb2.WatchJobRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[jobs_pb2.WatchJobResponse]:
        """See the proto."""
        who, sent = scope(), None
        while True:
            job = await self._jobs.get(who, request.id)
            if job != sent:
                yield jobs_pb2.WatchJobResponse(job=job_message(job))
            if job.state.ended:
                return
            sent = job
            await asyncio.sleep(_LOOK_S)

    async def CancelJob(
        self, request: jobs_pb2.CancelJobRequest, context: grpc.aio.ServicerContext
    ) -> jobs_pb2.CancelJobResponse:
        """See the proto."""
        return jobs_pb2.CancelJobResponse(job=job_message(await self._jobs.cancel(scope(), request.id)))


def job_message(job: Job) -> jobs_pb2.Job:
    """Give the message of a job."""
    return jobs_pb2.Job(
        id=job.id,
        kind=job.kind,
        state=jobs_pb2.JobState.ValueType(job.state),
        phase=job.phase,
        done_count=job.done_count,
        total_count=job.total_count,
        create_time=stamp_of(job.create_time),
        start_time=stamp_of(job.start_time) if job.start_time else None,
        end_time=stamp_of(job.end_time) if job.end_time else None,
        attempts=job.attempts,
        error_reason=job.error_reason,
        result_json=canonical_json(dict(job.result)) if job.state.ended else b"",
        cancel_requested=job.cancel_requested,
    )
