"""CreateSnapshot and ListSnapshots: named points in the history of a subtree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryos_core.errors import InvalidPageToken
from memoryos_core.paging import PageTokens
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.times import from_micros, micros_of

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.errors import ResourceNotFound
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.history import Snapshot
from memoryos_memoryfs.ports.storage import Work

CREATE: Final = "memoryos.memoryfs.v1.MemoryFS/CreateSnapshot"
_LIST: Final = "memoryos.memoryfs.v1.MemoryFS/ListSnapshots"
CHANNEL_DEFAULT: Final = "manual"
PAGE_SIZE_DEFAULT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCommand:
    """A parsed CreateSnapshot. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    channel: str
    title: str
    request_id: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsQuery:
    """A parsed ListSnapshots. `binding` is the request without its page fields."""

    path: MemoryPath
    channel: str
    page_size: int
    page_token: str
    binding: bytes


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """Snapshots and where the next page begins; "" at the end."""

    snapshots: list[Snapshot]
    next_page_token: str


async def take_snapshot(parts: Parts, scope: Scope, command: SnapshotCommand) -> tuple[Snapshot, list[str]]:
    """Give the present of a subtree as a named point, and the snapshots that were dropped for it.

    It costs one row, however large the subtree is. The newest five of a maker,
    path and channel are kept. Only its maker and tenant-admins see it; it gives
    no right to read anything.
    """
    access.check_read(scope, command.path)
    await parts.storage.prepare(scope, command.path, [], [])
    async with parts.storage.transaction(scope, whole=access.WIDE_ROLE in scope.roles) as work:
        answer = await work.journal.replay(CREATE, command.request_id, command.body)
        if answer is not None:
            kept = json.loads(answer)
            return await found_snapshot(work, scope, kept["id"]), kept["dropped"]
        snapshot, dropped = await work.snapshots.take(
            parts.ids.new("snap"), command.path, command.title, command.channel or CHANNEL_DEFAULT
        )
        await work.journal.audit(CREATE, command.path, [snapshot.id, *dropped])
        answer = json.dumps({"id": snapshot.id, "dropped": dropped}).encode()
        await work.journal.keep(CREATE, command.request_id, answer)
    return snapshot, dropped


async def list_snapshots(parts: Parts, scope: Scope, query: SnapshotsQuery) -> SnapshotPage:
    """Give a page of the caller's snapshots (a tenant-admin's: everyone's) of a path, below it, or holding it."""
    access.check_read(scope, query.path)
    tokens = PageTokens(await parts.storage.page_secret(scope))
    before = _position(tokens.decode(scope, _LIST, query.binding, query.page_token))
    size = query.page_size or PAGE_SIZE_DEFAULT
    async with parts.storage.transaction(scope) as work:
        found = await work.snapshots.page(query.path, query.channel, before=before, limit=size + 1)
    token = ""
    if len(found) > size:
        last = found[size - 1]
        token = tokens.encode(scope, _LIST, query.binding, (micros_of(last.create_time), last.id))
    page = [snapshot for snapshot in found[:size] if scope.may_read(snapshot.path)]
    await parts.trail.record(_LIST, scope, query.path, [snapshot.id for snapshot in page])
    return SnapshotPage(page, token)


async def found_snapshot(work: Work, scope: Scope, snapshot_id: str, path: MemoryPath | None = None) -> Snapshot:
    """Give a snapshot of the caller's that holds `path`; raises ResourceNotFound."""
    snapshot = await work.snapshots.find(snapshot_id)
    own = snapshot is not None and (snapshot.owner in scope.principals or access.WIDE_ROLE in scope.roles)
    if snapshot is None or not own or (path is not None and not snapshot.path.contains(path)):
        raise ResourceNotFound
    return snapshot


def _position(position: tuple[str | int, ...] | None) -> tuple[datetime, str] | None:
    if position is None:
        return None
    micros, snapshot_id = position
    if not isinstance(micros, int) or not isinstance(snapshot_id, str):
        raise InvalidPageToken
    return from_micros(micros), snapshot_id
