"""Lifecycle on the wire: Forget, Restore."""

from __future__ import annotations

import grpc
from memoryos.memoryfs.v1 import lifecycle_pb2
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.operations.forget_items import NamedItems, forget_items, restore_items
from memoryos_memoryfs.servicers.calls import WithParts, body_of


class LifecycleServicer(WithParts):
    """What becomes of items."""

    async def Forget(
        self, request: lifecycle_pb2.ForgetRequest, context: grpc.aio.ServicerContext
    ) -> lifecycle_pb2.ForgetResponse:
        """See the proto."""
        return lifecycle_pb2.ForgetResponse(forgotten_count=await forget_items(self._parts, scope(), _named(request)))

    async def Restore(
        self, request: lifecycle_pb2.RestoreRequest, context: grpc.aio.ServicerContext
    ) -> lifecycle_pb2.RestoreResponse:
        """See the proto."""
        return lifecycle_pb2.RestoreResponse(restored_count=await restore_items(self._parts, scope(), _named(request)))


def _named(request: lifecycle_pb2.ForgetRequest | lifecycle_pb2.RestoreRequest) -> NamedItems:
    if not all(request.ids):
        raise InvalidField.of("ids", "an id is empty")
    return NamedItems(
        path=MemoryPath.parse(request.path),
        ids=tuple(request.ids),
        request_id=request.request_id,
        body=body_of(request),
    )
