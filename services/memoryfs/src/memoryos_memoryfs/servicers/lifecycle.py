"""Lifecycle on the wire: Forget, Restore, Promote, Dispute."""

from __future__ import annotations

import grpc
from memoryos.memoryfs.v1 import lifecycle_pb2
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.domain.items import Source
from memoryos_memoryfs.filter_messages import filter_of
from memoryos_memoryfs.messages import item_message, source_of
from memoryos_memoryfs.operations.forget_items import NamedItems, forget_items, restore_items
from memoryos_memoryfs.operations.forget_matching import MatchingItems, forget_matching, preview_forgetting
from memoryos_memoryfs.operations.promote_items import JudgedItem, dispute_item, promote_item
from memoryos_memoryfs.servicers.calls import WithParts, body_of


class LifecycleServicer(WithParts):
    """What becomes of items."""

    async def Forget(
        self, request: lifecycle_pb2.ForgetRequest, context: grpc.aio.ServicerContext
    ) -> lifecycle_pb2.ForgetResponse:
        """See the proto."""
        if not request.HasField("filter"):
            count = await forget_items(self._parts, scope(), _named(request))
            return lifecycle_pb2.ForgetResponse(forgotten_count=count, matched_count=count)
        command = _matching(request)
        if request.preview:
            preview = await preview_forgetting(self._parts, scope(), command)
            return lifecycle_pb2.ForgetResponse(matched_count=preview.matched_count, preview_token=preview.token)
        count = await forget_matching(self._parts, scope(), command)
        return lifecycle_pb2.ForgetResponse(forgotten_count=count, matched_count=count)

    async def Restore(
        self, request: lifecycle_pb2.RestoreRequest, context: grpc.aio.ServicerContext
    ) -> lifecycle_pb2.RestoreResponse:
        """See the proto."""
        return lifecycle_pb2.RestoreResponse(restored_count=await restore_items(self._parts, scope(), _named(request)))

    async def Promote(
        self, request: lifecycle_pb2.PromoteRequest, context: grpc.aio.ServicerContext
    ) -> lifecycle_pb2.PromoteResponse:
        """See the proto."""
        source = source_of(request.evidence) if request.HasField("evidence") else None
        item = await promote_item(self._parts, scope(), _judged(request, source))
        return lifecycle_pb2.PromoteResponse(item=item_message(item))

    async def Dispute(
        self, request: lifecycle_pb2.DisputeRequest, context: grpc.aio.ServicerContext
    ) -> lifecycle_pb2.DisputeResponse:
        """See the proto."""
        return lifecycle_pb2.DisputeResponse(
            item=item_message(await dispute_item(self._parts, scope(), _judged(request, None)))
        )


def _judged(request: lifecycle_pb2.PromoteRequest | lifecycle_pb2.DisputeRequest, source: Source | None) -> JudgedItem:
    return JudgedItem(
        path=MemoryPath.parse(request.path),
        id=request.id,
        reason=request.reason,
        request_id=request.request_id,
        body=body_of(request),
        evidence=source,
    )


def _matching(request: lifecycle_pb2.ForgetRequest) -> MatchingItems:
    if request.ids:
        raise InvalidField.of("ids", "not together with filter")
    if not request.preview and not request.preview_token:
        raise InvalidField.of("preview_token", "is required with filter: ask for a preview first")
    binding = lifecycle_pb2.ForgetRequest(path=request.path, filter=request.filter)
    return MatchingItems(
        path=MemoryPath.parse(request.path),
        where=filter_of(request.filter),
        binding=body_of(binding),
        preview_token=request.preview_token,
        request_id=request.request_id,
        body=body_of(request),
    )


def _named(request: lifecycle_pb2.ForgetRequest | lifecycle_pb2.RestoreRequest) -> NamedItems:
    if not request.ids:
        raise InvalidField.of("ids", "or a filter is required")
    if not all(request.ids):
        raise InvalidField.of("ids", "an id is empty")
    return NamedItems(
        path=MemoryPath.parse(request.path),
        ids=tuple(request.ids),
        request_id=request.request_id,
        body=body_of(request),
    )
