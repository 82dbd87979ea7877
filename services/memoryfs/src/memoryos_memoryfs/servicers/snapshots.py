"""Snapshots on the wire: CreateSnapshot, ListSnapshots, Diff, Rollback."""

from __future__ import annotations

import grpc
from memoryos.memoryfs.v1 import snapshots_pb2 as pb
from memoryos.type.v1 import common_pb2
from memoryos_core.paths import MemoryPath
from memoryos_grpc.caller import scope

from memoryos_memoryfs.domain.changes import actor_parts
from memoryos_memoryfs.domain.differences import Difference
from memoryos_memoryfs.messages import instant, item_message, stamp_of
from memoryos_memoryfs.operations.diff_points import DiffQuery, diff_points
from memoryos_memoryfs.operations.roll_back import RollbackCommand, roll_back
from memoryos_memoryfs.operations.take_snapshot import SnapshotCommand, SnapshotsQuery, list_snapshots, take_snapshot
from memoryos_memoryfs.ports.history import Snapshot
from memoryos_memoryfs.servicers.calls import WithParts, body_of


class SnapshotsServicer(WithParts):
    """Named points, what differs from them, and the way back."""

    async def CreateSnapshot(
        self, request: pb.CreateSnapshotRequest, context: grpc.aio.ServicerContext
    ) -> pb.CreateSnapshotResponse:
        """See the proto."""
        command = SnapshotCommand(
            path=MemoryPath.parse(request.path),
            channel=request.channel,
            title=request.title,
            request_id=request.request_id,
            body=body_of(request),
        )
        snapshot, dropped = await take_snapshot(self._parts, scope(), command)
        return pb.CreateSnapshotResponse(snapshot=_snapshot_message(snapshot), dropped_ids=dropped)

    async def ListSnapshots(
        self, request: pb.ListSnapshotsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListSnapshotsResponse:
        """See the proto."""
        query = SnapshotsQuery(
            path=MemoryPath.parse(request.path),
            channel=request.channel,
            page_size=request.page_size,
            page_token=request.page_token,
            binding=_unpaged(request),
        )
        page = await list_snapshots(self._parts, scope(), query)
        return pb.ListSnapshotsResponse(
            snapshots=[_snapshot_message(snapshot) for snapshot in page.snapshots],
            next_page_token=page.next_page_token,
        )

    async def Diff(self, request: pb.DiffRequest, context: grpc.aio.ServicerContext) -> pb.DiffResponse:
        """See the proto."""
        query = DiffQuery(
            path=MemoryPath.parse(request.path),
            from_id=request.from_snapshot_id,
            to_id=request.to_snapshot_id,
            page_size=request.page_size,
            page_token=request.page_token,
            binding=_unpaged(request),
        )
        page = await diff_points(self._parts, scope(), query)
        differences = [_difference_message(entry) for entry in page.differences]
        return pb.DiffResponse(differences=differences, next_page_token=page.next_page_token)

    async def Rollback(self, request: pb.RollbackRequest, context: grpc.aio.ServicerContext) -> pb.RollbackResponse:
        """See the proto."""
        changed = request.changed
        command = RollbackCommand(
            path=MemoryPath.parse(request.path),
            snapshot_id=request.snapshot_id,
            actor=request.actor,
            session_id=request.source_session_id,
            changed_from=instant(changed.start, "changed.start") if changed.HasField("start") else None,
            changed_to=instant(changed.end, "changed.end") if changed.HasField("end") else None,
            preview=request.preview,
            request_id=request.request_id,
            body=body_of(request),
        )
        result = await roll_back(self._parts, scope(), command)
        return pb.RollbackResponse(
            reverted_count=result.reverted_count,
            forgotten_count=result.forgotten_count,
            restored_count=result.restored_count,
            erased_count=result.erased_count,
            undo_snapshot_id=result.undo_snapshot_id,
        )


def _unpaged(request: pb.ListSnapshotsRequest | pb.DiffRequest) -> bytes:
    """Give the request without its page fields, which page tokens are bound to."""
    binding = type(request)()
    binding.CopyFrom(request)  # type: ignore[arg-type]
    binding.ClearField("page_token")
    binding.ClearField("page_size")
    return binding.SerializeToString(deterministic=True)


def _snapshot_message(snapshot: Snapshot) -> pb.Snapshot:
    user, agents = actor_parts(snapshot.actor)
    return pb.Snapshot(
        id=snapshot.id,
        path=str(snapshot.path),
        channel=snapshot.channel,
        title=snapshot.title,
        actor=common_pb2.Actor(user=user, agent_chain=agents),
        create_time=stamp_of(snapshot.create_time),
    )


def _difference_message(entry: Difference) -> pb.Difference:
    return pb.Difference(
        id=entry.id,
        kind=pb.DiffKind.ValueType(entry.kind),
        fields=entry.fields,
        before=item_message(entry.before) if entry.before else None,
        after=item_message(entry.after) if entry.after else None,
    )
