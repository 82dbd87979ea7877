"""Erasure: items, subtrees and whole persons, gone from every service, with a signed receipt."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos.memoryfs.v1 import admin_pb2

from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.results import Job, Receipt, job


class ErasureCalls(Calls):
    """What cannot be undone."""

    async def purge(
        self,
        *,
        user: str = "",
        path: str = "",
        ids: Sequence[str] = (),
        subtree: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> Job:
        """Start to erase a whole person, or at `path` the items named, or the whole subtree. It cannot be undone.

        Follow the job with `client.jobs.wait(job.id)`; then `receipt(job.id)`.
        """
        if sum(map(bool, (user, ids, subtree))) != 1:
            raise InvalidArgument.of("target", "give one of user, ids and subtree")
        request = admin_pb2.PurgeRequest(
            user=user, path=path, ids=ids, subtree=subtree, reason=reason, request_id=request_id or new_request_id()
        )
        return job((await self._invocation.unary(self._stub.Purge, request)).job)

    async def receipt(self, job_id: str) -> Receipt:
        """Give the signed receipt of a purge that has succeeded."""
        answer = await self._invocation.unary(self._stub.GetReceipt, admin_pb2.GetReceiptRequest(job_id=job_id))
        return Receipt(raw=answer.receipt_json, signature=answer.signature, key_id=answer.key_id)
