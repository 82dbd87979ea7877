"""Recall on the wire: Read."""

from __future__ import annotations

import grpc
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.filter_messages import filter_of
from memoryos_memoryfs.messages import item_message
from memoryos_memoryfs.operations.read_items import ReadQuery, read_items
from memoryos_memoryfs.servicers.calls import WithParts, deadline_s


class RecallServicer(WithParts):
    """Items by meaning, words and time."""

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
            deadline_s=deadline_s(),
            rerank=request.rerank if request.HasField("rerank") else None,
        )
        recalled = await read_items(self._parts, scope(), query)
        return pb.ReadResponse(
            hits=[
                pb.Hit(
                    item=item_message(hit.item),
                    score=hit.score,
                    details=pb.ScoreDetails(
                        dense=hit.dense, lexical=hit.lexical, neighbours=hit.beside or None, rerank=hit.rerank
                    ),
                )
                for hit in recalled.hits
            ],
            exactness=pb.Exactness.ValueType(recalled.exactness),
            degradations=[pb.Degradation.ValueType(degradation) for degradation in recalled.degradations],
        )
