"""The vector index of the installation, for operators."""

from __future__ import annotations

from memoryos.memoryfs.v1 import admin_pb2

from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.names import number
from memoryos_sdk.results import IndexStatus, Job, index_status, job


class Index(Calls):
    """Where vectors are searched."""

    async def status(self) -> IndexStatus:
        """Give the state of the index."""
        answer = await self._invocation.unary(self._stub.GetIndexStatus, admin_pb2.GetIndexStatusRequest())
        return index_status(answer.status)

    async def migrate(self, to: str, step: str, *, request_id: str | None = None) -> tuple[Job | None, IndexStatus]:
        """Take one step of a move to `to` (pgvector, qdrant): start, cut_over, roll_back, finish."""
        request = admin_pb2.MigrateIndexRequest(
            to=number(admin_pb2.IndexBackend, to, "to"),
            step=number(admin_pb2.MigrationStep, step, "step"),
            request_id=request_id or new_request_id(),
        )
        answer = await self._invocation.unary(self._stub.MigrateIndex, request)
        return (job(answer.job) if answer.HasField("job") else None), index_status(answer.status)

    async def verify(self, *, repair: bool = False, request_id: str | None = None) -> Job:
        """Start to compare the index with the truth."""
        request = admin_pb2.VerifyIndexRequest(repair=repair, request_id=request_id or new_request_id())
        return job((await self._invocation.unary(self._stub.VerifyIndex, request)).job)
