"""MemoryFS on the wire: parse, call one operation, render."""

from __future__ import annotations

from typing import Final

import grpc
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_grpc.budget import remaining_s
from memoryos_grpc.caller import scope

from memoryos_memoryfs.domain.items import State
from memoryos_memoryfs.messages import draft_of, filter_of, item_message
from memoryos_memoryfs.operations.forget_items import NamedItems, forget_items, restore_items
from memoryos_memoryfs.operations.get_item import get_item
from memoryos_memoryfs.operations.list_items import ListQuery, list_items
from memoryos_memoryfs.operations.read_items import ReadQuery, read_items
from memoryos_memoryfs.operations.write_items import WriteCommand, write_items
from memoryos_memoryfs.parts import Parts

_NO_DEADLINE_S: Final = 60.0


class MemoryFSServicer(memoryfs_pb2_grpc.MemoryFSServicer):
    """One method per RPC; identity, roles, limits and errors are the interceptors' work."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def Write(self, request: pb.WriteRequest, context: grpc.aio.ServicerContext) -> pb.WriteResponse:
        """See the proto."""
        command = WriteCommand(
            path=MemoryPath.parse(request.path),
            drafts=tuple(draft_of(entry, f"entries[{n}]") for n, entry in enumerate(request.entries)),
            request_id=request.request_id,
            body=_body(request),
            deadline_s=_deadline_s(),
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
                )
                for result in results
            ]
        )

    async def Read(self, request: pb.ReadRequest, context: grpc.aio.ServicerContext) -> pb.ReadResponse:
        """See the proto."""
        query = ReadQuery(
            path=MemoryPath.parse(request.path),
            text=request.query,
            top_k=request.top_k,
            where=filter_of(request.filter),
            min_score=request.min_score if request.HasField("min_score") else None,
            embedding_model=request.embedding.model,
            embedding=request.embedding.values if request.HasField("embedding") else None,
            deadline_s=_deadline_s(),
        )
        recalled = await read_items(self._parts, scope(), query)
        return pb.ReadResponse(
            hits=[
                pb.Hit(
                    item=item_message(hit.item),
                    score=hit.score,
                    details=pb.ScoreDetails(dense=hit.dense, lexical=hit.lexical),
                )
                for hit in recalled.hits
            ],
            exactness=pb.Exactness.ValueType(recalled.exactness),
            degradations=[pb.Degradation.ValueType(degradation) for degradation in recalled.degradations],
        )

    async def Get(self, request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.GetResponse:
        """See the proto."""
        return pb.GetResponse(item=item_message(await get_item(self._parts, scope(), request.id)))

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

    async def Forget(self, request: pb.ForgetRequest, context: grpc.aio.ServicerContext) -> pb.ForgetResponse:
        """See the proto."""
        return pb.ForgetResponse(forgotten_count=await forget_items(self._parts, scope(), _named(request)))

    async def Restore(self, request: pb.RestoreRequest, context: grpc.aio.ServicerContext) -> pb.RestoreResponse:
        """See the proto."""
        return pb.RestoreResponse(restored_count=await restore_items(self._parts, scope(), _named(request)))


def _named(request: pb.ForgetRequest | pb.RestoreRequest) -> NamedItems:
    if not all(request.ids):
        raise InvalidField.of("ids", "an id is empty")
    return NamedItems(
        path=MemoryPath.parse(request.path),
        ids=tuple(request.ids),
        request_id=request.request_id,
        body=_body(request),
    )


def _body(request: pb.WriteRequest | pb.ForgetRequest | pb.RestoreRequest) -> bytes:
    """Give the request as sent; the same request sent again gives the same bytes."""
    return request.SerializeToString(deterministic=True)


def _deadline_s() -> float:
    left = remaining_s()
    return _NO_DEADLINE_S if left is None else left
