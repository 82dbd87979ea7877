"""Erasure on the wire: Purge, GetReceipt."""

from __future__ import annotations

import base64

import grpc
from memoryos.memoryfs.v1 import admin_pb2
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.operations.purge_items import PurgeCommand, get_receipt, purge_items
from memoryos_memoryfs.servicers.calls import WithParts, body_of
from memoryos_memoryfs.servicers.jobs import job_message


class ErasureServicer(WithParts):
    """What is removed for good."""

    async def Purge(
        self, request: admin_pb2.PurgeRequest, context: grpc.aio.ServicerContext
    ) -> admin_pb2.PurgeResponse:
        """See the proto."""
        command = PurgeCommand(
            user=request.user,
            ids=tuple(request.ids),
            path=MemoryPath.parse(request.path) if request.path else None,
            subtree=request.subtree,
            request_id=request.request_id,
            body=body_of(request),
        )
        job_id = await purge_items(self._parts, scope(), command)
        return admin_pb2.PurgeResponse(job=job_message(await self._parts.jobs.get(scope(), job_id)))

    async def GetReceipt(
        self, request: admin_pb2.GetReceiptRequest, context: grpc.aio.ServicerContext
    ) -> admin_pb2.GetReceiptResponse:
        """See the proto."""
        receipt = get_receipt(await self._parts.jobs.get(scope(), request.job_id))
        return admin_pb2.GetReceiptResponse(
            receipt_json=receipt.text, signature=base64.b64decode(receipt.signature), key_id=receipt.key_id
        )
