"""MemoryReader over MemoryFS."""

from __future__ import annotations

from typing import Final

import grpc
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_core.errors import DependencyUnavailable, NotAllowed
from memoryos_grpc.caller import subject_token
from memoryos_grpc.status import remote_error

from memoryos_harness.ports import RecalledItem

TIMEOUT_S: Final = 10.0


class GrpcMemory:
    """See `MemoryReader`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = memoryfs_pb2_grpc.MemoryFSStub(channel)

    async def recall(
        self, token: str, *, path: str, query: str, top_k: int, min_score: float
    ) -> tuple[RecalledItem, ...]:
        """See `MemoryReader.recall`."""
        request = memoryfs_pb2.ReadRequest(path=path, query=query, top_k=top_k, min_score=min_score)
        try:
            with subject_token(token):
                call = self._stub.Read(request, timeout=TIMEOUT_S)
            answer = await call
        except grpc.aio.AioRpcError as error:
            remote = remote_error(error)
            if remote.code in ("PERMISSION_DENIED", "UNAUTHENTICATED"):
                raise NotAllowed from error
            raise DependencyUnavailable(
                metadata={"peer": "memoryfs", "code": remote.code, "peer_reason": remote.reason},
                retry_after_s=remote.retry_after_s,
            ) from error
        return tuple(_item(hit) for hit in answer.hits)


def _item(hit: memoryfs_pb2.Hit) -> RecalledItem:
    item = hit.item
    return RecalledItem(
        id=item.id,
        content=item.content,
        score=hit.score,
        valid_from=item.valid_from.ToJsonString() if item.HasField("valid_from") else "",
        trusted=item.trust == item_pb2.TRUST_TRUSTED,
    )
