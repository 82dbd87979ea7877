"""History on the wire: Merge, History, Revert, Lineage."""

from __future__ import annotations

import grpc
from memoryos.jobs.v1 import jobs_pb2
from memoryos.memoryfs.v1 import lifecycle_pb2 as pb
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.domain.derivation import Abstract
from memoryos_memoryfs.messages import attributes_of, event_key_of, item_message
from memoryos_memoryfs.operations.merge_items import JOB_KIND, MergeCommand, merge_items
from memoryos_memoryfs.operations.revert_item import RevertCommand, revert_item
from memoryos_memoryfs.operations.show_history import HistoryQuery, show_history
from memoryos_memoryfs.operations.trace_lineage import trace_lineage
from memoryos_memoryfs.servicers.calls import WithParts, body_of, deadline_s
from memoryos_memoryfs.servicers.changes import change_message


class HistoryServicer(WithParts):
    """What an item was, what it was made from, and what was made from it."""

    async def Merge(self, request: pb.MergeRequest, context: grpc.aio.ServicerContext) -> pb.MergeResponse:
        """See the proto."""
        merged = await merge_items(self._parts, scope(), merge_command(body_of(request), deadline_s()))
        if merged.item is not None:
            return pb.MergeResponse(item=item_message(merged.item))
        job = jobs_pb2.Job(id=merged.job_id, kind=JOB_KIND, state=jobs_pb2.JOB_STATE_QUEUED)
        return pb.MergeResponse(job=job)

    async def History(self, request: pb.HistoryRequest, context: grpc.aio.ServicerContext) -> pb.HistoryResponse:
        """See the proto."""
        query = HistoryQuery(id=request.id, page_size=request.page_size, page_token=request.page_token)
        page = await show_history(self._parts, scope(), query)
        changes = [change_message(change) for change in page.changes]
        return pb.HistoryResponse(changes=changes, next_page_token=page.next_page_token)

    async def Revert(self, request: pb.RevertRequest, context: grpc.aio.ServicerContext) -> pb.RevertResponse:
        """See the proto."""
        command = RevertCommand(
            path=MemoryPath.parse(request.path),
            id=request.id,
            revision=request.revision,
            if_match=request.if_match,
            request_id=request.request_id,
            body=body_of(request),
        )
        return pb.RevertResponse(item=item_message(await revert_item(self._parts, scope(), command)))

    async def Lineage(self, request: pb.LineageRequest, context: grpc.aio.ServicerContext) -> pb.LineageResponse:
        """See the proto."""
        traced = await trace_lineage(self._parts, scope(), request.id, request.depth)
        return pb.LineageResponse(
            items=[item_message(item) for item in traced.items],
            edges=[
                pb.LineageEdge(from_id=edge.from_id, to_id=edge.to_id, kind=pb.LineageKind.ValueType(edge.kind))
                for edge in traced.edges
            ],
            truncated=traced.truncated,
        )


def merge_command(body: bytes, deadline_s: float) -> MergeCommand:
    """Give the command of a Merge as it was sent; a job keeps it in this form."""
    request = pb.MergeRequest.FromString(body)
    if not all(request.ids):
        raise InvalidField.of("ids", "an id is empty")
    return MergeCommand(
        path=MemoryPath.parse(request.path),
        ids=tuple(request.ids),
        abstract=Abstract(
            content=request.content,
            attributes=attributes_of(request.attributes_json, "attributes_json"),
            tags=tuple(dict.fromkeys(request.tags)),
            event_key=event_key_of(request.event_key),
        ),
        request_id=request.request_id,
        body=body,
        deadline_s=deadline_s,
    )
