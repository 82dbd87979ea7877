"""Recall on the wire: Read, Explain."""

from __future__ import annotations

import grpc
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_grpc.caller import scope

from memoryos_memoryfs.operations.explain_items import Principal, explain_items
from memoryos_memoryfs.operations.read_items import read_items
from memoryos_memoryfs.read_messages import explain_response, query_of, read_response
from memoryos_memoryfs.servicers.calls import WithParts, deadline_s


class RecallServicer(WithParts):
    """Items by meaning, words and time."""

    async def Read(self, request: pb.ReadRequest, context: grpc.aio.ServicerContext) -> pb.ReadResponse:
        """See the proto."""
        return read_response(await read_items(self._parts, scope(), query_of(request, deadline_s())))

    async def Explain(self, request: pb.ExplainRequest, context: grpc.aio.ServicerContext) -> pb.ExplainResponse:
        """See the proto."""
        principal = Principal(
            user=request.principal.user,
            groups=tuple(request.principal.groups),
            roles=tuple(request.principal.roles),
            clearance=request.principal.clearance,
        )
        query = query_of(request.read, deadline_s(), "read.")
        return explain_response(await explain_items(self._parts, scope(), principal, query, request.expected_ids))
