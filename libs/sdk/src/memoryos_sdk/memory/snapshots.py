"""Snapshots: named points in the history of a subtree, what differs, and going back."""

from __future__ import annotations

from memoryos.memoryfs.v1 import snapshots_pb2

from memoryos_sdk.invocation import new_request_id
from memoryos_sdk.memory.calls import Calls
from memoryos_sdk.paging import Pager
from memoryos_sdk.results import Difference, Rollback, Snapshot, difference, rollback, snapshot
from memoryos_sdk.times import Range, time_range


class SnapshotCalls(Calls):
    """Points in time."""

    async def create_snapshot(
        self, path: str, *, channel: str = "", title: str = "", request_id: str | None = None
    ) -> Snapshot:
        """Name this moment of a subtree; the newest five of a channel are kept."""
        request = snapshots_pb2.CreateSnapshotRequest(
            path=path, channel=channel, title=title, request_id=request_id or new_request_id()
        )
        return snapshot((await self._invocation.unary(self._stub.CreateSnapshot, request)).snapshot)

    def list_snapshots(self, path: str, *, channel: str = "") -> Pager[Snapshot]:
        """Give the snapshots that concern a path, newest first."""
        request = snapshots_pb2.ListSnapshotsRequest(path=path, channel=channel)
        return self._pager(
            self._stub.ListSnapshots, request, lambda answer: [snapshot(one) for one in answer.snapshots]
        )

    def diff(self, path: str, from_snapshot: str, to_snapshot: str = "") -> Pager[Difference]:
        """Give what differs between a snapshot and a later one, or now."""
        request = snapshots_pb2.DiffRequest(path=path, from_snapshot_id=from_snapshot, to_snapshot_id=to_snapshot)
        return self._pager(self._stub.Diff, request, lambda answer: [difference(one) for one in answer.differences])

    async def rollback(
        self,
        path: str,
        snapshot_id: str,
        *,
        actor: str = "",
        source_session_id: str = "",
        changed: Range | None = None,
        preview: bool = False,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Rollback:
        """Give a subtree the state of a snapshot, by new revisions; `preview` only says what would change.

        Only what `actor` (user:u, agent:u/name) changed, only what came from a
        session, only what changed in a half-open range of time.
        """
        request = snapshots_pb2.RollbackRequest(
            path=path,
            snapshot_id=snapshot_id,
            actor=actor,
            source_session_id=source_session_id,
            preview=preview,
            request_id=request_id or new_request_id(),
        )
        if changed is not None:
            request.changed.CopyFrom(time_range(changed, self._invocation.zone, "changed"))
        return rollback(await self._invocation.unary(self._stub.Rollback, request, timeout_s=timeout_s))
