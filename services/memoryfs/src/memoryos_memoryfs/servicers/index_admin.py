"""The dense index on the wire: MigrateIndex, VerifyIndex, GetIndexStatus."""

from __future__ import annotations

from typing import Final

import grpc
from memoryos.jobs.v1 import jobs_pb2
from memoryos.memoryfs.v1 import admin_pb2 as pb
from memoryos_core.errors import InvalidField
from memoryos_grpc.caller import scope

from memoryos_memoryfs.messages import stamp_of
from memoryos_memoryfs.operations.index_admin import MigrateCommand, migrate_index, start_verify
from memoryos_memoryfs.operations.index_status import IndexStatus, index_status
from memoryos_memoryfs.operations.migrate_index import Step
from memoryos_memoryfs.ports.index import Backend
from memoryos_memoryfs.servicers.calls import WithParts, body_of

_BACKENDS: Final = {
    pb.INDEX_BACKEND_PGVECTOR: Backend.PGVECTOR,
    pb.INDEX_BACKEND_QDRANT: Backend.QDRANT,
}
_NUMBERS: Final = {backend: number for number, backend in _BACKENDS.items()}


class IndexAdminServicer(WithParts):
    """For operators."""

    async def MigrateIndex(
        self, request: pb.MigrateIndexRequest, context: grpc.aio.ServicerContext
    ) -> pb.MigrateIndexResponse:
        """See the proto."""
        if request.to not in _BACKENDS:
            raise InvalidField.of("to", "names no backend")
        if request.step == pb.MIGRATION_STEP_UNSPECIFIED or request.step not in pb.MigrationStep.values():
            raise InvalidField.of("step", "names no step")
        command = MigrateCommand(
            to=_BACKENDS[request.to], step=Step(request.step), request_id=request.request_id, body=body_of(request)
        )
        job_id = await migrate_index(self._parts, scope(), command)
        status = await index_status(self._parts.index, scope())
        return pb.MigrateIndexResponse(job=_job(job_id), status=_status_message(status))

    async def VerifyIndex(
        self, request: pb.VerifyIndexRequest, context: grpc.aio.ServicerContext
    ) -> pb.VerifyIndexResponse:
        """See the proto."""
        job_id = await start_verify(
            self._parts, scope(), repair=request.repair, request_id=request.request_id, body=body_of(request)
        )
        return pb.VerifyIndexResponse(job=_job(job_id))

    async def GetIndexStatus(
        self, request: pb.GetIndexStatusRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetIndexStatusResponse:
        """See the proto."""
        return pb.GetIndexStatusResponse(status=_status_message(await index_status(self._parts.index, scope())))


def _job(job_id: str) -> jobs_pb2.Job | None:
    """Give a job as it stands when it is asked for; GetJob tells more."""
    return jobs_pb2.Job(id=job_id, state=jobs_pb2.JOB_STATE_QUEUED) if job_id else None


def _status_message(status: IndexStatus) -> pb.IndexStatus:
    backends, backlog = status.backends, status.backlog
    other = Backend.PGVECTOR if backends.serving is Backend.QDRANT else Backend.QDRANT
    written = backends.feeding  # PostgreSQL is written in any case
    return pb.IndexStatus(
        backend=_NUMBERS[backends.serving],
        other_backend=_NUMBERS[other] if written else pb.INDEX_BACKEND_UNSPECIFIED,
        phase=pb.MigrationPhase.ValueType(backends.phase),
        pending_count=backlog.pending_count,
        oldest_pending_time=stamp_of(backlog.oldest_time) if backlog.oldest_time else None,
        dead_letter_count=backlog.dead_count,
        unembedded_count=backlog.unembedded_count,
        degraded=status.degraded,
        embedding_model=status.model_id,
        dimensions=status.dimensions,
    )
