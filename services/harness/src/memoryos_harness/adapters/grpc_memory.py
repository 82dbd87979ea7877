"""MemoryReader, WorkingMemory and MemoryBindings over MemoryFS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import grpc
from google.protobuf.duration_pb2 import Duration
from memoryos.memoryfs.v1 import bindings_pb2, item_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_core.errors import DependencyUnavailable, MemoryOSError, NotAllowed
from memoryos_core.ids import IdSource
from memoryos_grpc.caller import subject_token
from memoryos_grpc.status import remote_error

from memoryos_harness.ports import RecalledItem

TIMEOUT_S: Final = 10.0


class GrpcMemory:
    """See `MemoryReader`, `WorkingMemory` and `MemoryBindings`."""

    def __init__(self, channel: grpc.aio.Channel, ids: IdSource) -> None:
        self._stub = memoryfs_pb2_grpc.MemoryFSStub(channel)
        self._ids = ids

    async def recall(
        self, token: str, *, path: str, query: str, top_k: int, min_score: float
    ) -> tuple[RecalledItem, ...]:
        """See `MemoryReader.recall`."""
        request = memoryfs_pb2.ReadRequest(path=path, query=query, top_k=top_k, min_score=min_score)
        with _translated():
            with subject_token(token):
                call = self._stub.Read(request, timeout=TIMEOUT_S)
            answer = await call
        return tuple(_item(hit) for hit in answer.hits)

    async def put(self, token: str, *, path: str, texts: Sequence[str], request_id: str) -> tuple[str, ...]:
        """See `WorkingMemory.put`."""
        request = memoryfs_pb2.WriteRequest(
            path=path,
            entries=[memoryfs_pb2.WriteEntry(content=text, origin=item_pb2.ORIGIN_OBSERVED) for text in texts],
            request_id=request_id,
            on_conflict=memoryfs_pb2.ON_CONFLICT_ADD,
        )
        with _translated():
            with subject_token(token):
                call = self._stub.Write(request, timeout=TIMEOUT_S)
            answer = await call
        return tuple(result.id for result in answer.results)

    async def bind(self, token: str, *, task_id: str, read: Sequence[str], write: Sequence[str], ttl_s: float) -> str:
        """See `MemoryBindings.bind`."""
        request = bindings_pb2.BindRequest(
            binding=bindings_pb2.Binding(task_id=task_id, read_paths=read, write_paths=write),
            ttl=Duration(seconds=int(ttl_s)),
            request_id=self._ids.new("bind"),
        )
        with _translated():
            with subject_token(token):
                call = self._stub.Bind(request, timeout=TIMEOUT_S)
            answer = await call
        return str(answer.binding.id)

    async def unbind(self, token: str, binding_id: str) -> None:
        """See `MemoryBindings.unbind`."""
        request = bindings_pb2.UnbindRequest(id=binding_id, request_id=binding_id)
        try:
            with subject_token(token):
                call = self._stub.Unbind(request, timeout=TIMEOUT_S)
            await call
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise _error(error) from error


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _error(error) from error


def _error(error: grpc.aio.AioRpcError) -> MemoryOSError:
    remote = remote_error(error)
    if remote.code in ("PERMISSION_DENIED", "UNAUTHENTICATED"):
        return NotAllowed()
    return DependencyUnavailable(
        metadata={"peer": "memoryfs", "code": remote.code, "peer_reason": remote.reason},
        retry_after_s=remote.retry_after_s,
    )


def _item(hit: memoryfs_pb2.Hit) -> RecalledItem:
    item = hit.item
    return RecalledItem(
        id=item.id,
        content=item.content,
        score=hit.score,
        valid_from=item.valid_from.ToJsonString() if item.HasField("valid_from") else "",
        trusted=item.trust == item_pb2.TRUST_TRUSTED,
    )
