"""Items on the wire: Write, Get, List."""

from __future__ import annotations

from typing import Final

import grpc
from memoryos.memoryfs.v1 import item_pb2
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.domain.items import State
from memoryos_memoryfs.filter_messages import filter_of
from memoryos_memoryfs.messages import draft_of, item_message, stamp_of
from memoryos_memoryfs.operations.get_item import get_item
from memoryos_memoryfs.operations.list_items import ListQuery, list_items
from memoryos_memoryfs.operations.write_items import WriteCommand, write_items
from memoryos_memoryfs.servicers.calls import WithParts, body_of, deadline_s

_MERGE: Final = {
    pb.ON_CONFLICT_UNSPECIFIED: None,
    pb.ON_CONFLICT_MERGE: True,
    pb.ON_CONFLICT_ADD: False,
}


class ItemsServicer(WithParts):
    """Items by name and by place."""

    async def Write(self, request: pb.WriteRequest, context: grpc.aio.ServicerContext) -> pb.WriteResponse:
        """See the proto."""
        command = WriteCommand(
            path=MemoryPath.parse(request.path),
            drafts=tuple(draft_of(entry, f"entries[{n}]") for n, entry in enumerate(request.entries)),
            request_id=request.request_id,
            body=body_of(request),
            deadline_s=deadline_s(),
            merge=_MERGE[request.on_conflict],
        )
        results = await write_items(self._parts, scope(), command)
        return pb.WriteResponse(
            results=[
                pb.WriteResult(
                    id=result.id,
                    revision=result.revision,
                    etag=result.etag,
                    state=item_pb2.State.ValueType(result.state),
                    gated=result.gated,
                    embed_state=item_pb2.EmbedState.ValueType(result.embed_state),
                    outcome=pb.WriteOutcome.ValueType(result.outcome),
                    superseded_ids=result.superseded,
                )
                for result in results
            ]
        )

    async def Get(self, request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.GetResponse:
        """See the proto."""
        item = await get_item(self._parts, scope(), request.id)
        answer = pb.GetResponse(item=item_message(item))
        if request.with_access:
            use = await self._parts.hits.used(scope().tenant, item.id)
            stamp = stamp_of(use.last_time) if use.last_time else None
            answer.item.access.CopyFrom(item_pb2.AccessStats(hit_count=use.hits, last_hit_time=stamp))
        return answer

    async def List(self, request: pb.ListRequest, context: grpc.aio.ServicerContext) -> pb.ListResponse:
        """See the proto."""
        binding = pb.ListRequest()
        binding.CopyFrom(request)
        binding.ClearField("page_token")
        binding.ClearField("page_size")
        query = ListQuery(
            path=MemoryPath.parse(request.path),
            where=filter_of(request.filter),
            state=State(request.state) if request.state else State.ACTIVE,
            page_size=request.page_size,
            page_token=request.page_token,
            binding=binding.SerializeToString(deterministic=True),
        )
        page = await list_items(self._parts, scope(), query)
        return pb.ListResponse(items=[item_message(item) for item in page.items], next_page_token=page.next_page_token)
