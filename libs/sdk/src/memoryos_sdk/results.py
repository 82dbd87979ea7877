"""What MemoryFS answers beside items, as plain values. Enums are lower-case words, times are UTC."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memoryos.jobs.v1 import jobs_pb2
from memoryos.memoryfs.v1 import (
    admin_pb2,
    bindings_pb2,
    item_pb2,
    lifecycle_pb2,
    memoryfs_pb2,
    namespace_pb2,
    snapshots_pb2,
    transfer_pb2,
)

from memoryos_sdk.items import Item, item, score_parts
from memoryos_sdk.names import word
from memoryos_sdk.times import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Counts of what the caller may read below a place."""

    active_count: int
    candidate_count: int
    superseded_count: int
    forgotten_count: int
    cold_count: int
    pending_count: int
    content_bytes: int
    newest_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """Usage of a place, and of the places directly below it by path, largest first."""

    usage: Usage
    children: dict[str, Usage]
    children_truncated: bool


def usage(message: namespace_pb2.Usage) -> Usage:
    """Give the value of a Usage message."""
    return Usage(
        active_count=message.active_count,
        candidate_count=message.candidate_count,
        superseded_count=message.superseded_count,
        forgotten_count=message.forgotten_count,
        cold_count=message.cold_count,
        pending_count=message.pending_count,
        content_bytes=message.content_bytes,
        newest_time=moment(message, "newest_time"),
    )


def stat(message: namespace_pb2.StatResponse) -> Stat:
    """Give the value of a StatResponse message."""
    return Stat(
        usage=usage(message.usage),
        children={child.path: usage(child.usage) for child in message.children},
        children_truncated=message.children_truncated,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSettings:
    """What a path states, or what holds there; None: not stated (inherited)."""

    path: str
    default_readers: tuple[str, ...] | None
    writers: tuple[str, ...] | None
    gate: float | None
    confidence_caps: tuple[tuple[str, str, float], ...] | None
    """(origin or "", role or "", highest confidence)."""
    ttl: timedelta | None
    retention: timedelta | None
    hot_window: timedelta | None
    items_max: int | None
    bytes_max: int | None
    keep_max: int | None
    etag: str
    update_time: datetime | None


def path_settings(message: namespace_pb2.PathSettings) -> PathSettings:
    """Give the value of a PathSettings message."""
    has = {descriptor.name for descriptor, _ in message.ListFields()}

    def lasting(name: str) -> timedelta | None:
        found: timedelta | None = getattr(message, name).ToTimedelta() if message.HasField(name) else None  # type: ignore[arg-type]
        return found

    caps = tuple(
        (word(item_pb2.Origin, cap.origin) if cap.origin else "", cap.role, cap.max)
        for cap in message.confidence_caps.caps
    )
    return PathSettings(
        path=message.path,
        default_readers=tuple(message.default_readers.principals) if message.HasField("default_readers") else None,
        writers=tuple(message.writers.principals) if message.HasField("writers") else None,
        gate=message.gate if "gate" in has or message.HasField("gate") else None,
        confidence_caps=caps if message.HasField("confidence_caps") else None,
        ttl=lasting("ttl"),
        retention=lasting("retention"),
        hot_window=lasting("hot_window"),
        items_max=message.items_max if message.HasField("items_max") else None,
        bytes_max=message.bytes_max if message.HasField("bytes_max") else None,
        keep_max=message.keep_max if message.HasField("keep_max") else None,
        etag=message.etag,
        update_time=moment(message, "update_time"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change in the life of an item."""

    time: datetime | None
    cause: str
    user: str
    agent_chain: tuple[str, ...]
    trace_id: str
    from_state: str
    to_state: str
    revision: int
    item: Item | None


def change(message: lifecycle_pb2.Change) -> Change:
    """Give the value of a Change message."""
    return Change(
        time=moment(message, "change_time"),
        cause=word(lifecycle_pb2.ChangeCause, message.cause),
        user=message.actor.user,
        agent_chain=tuple(message.actor.agent_chain),
        trace_id=message.trace_id,
        from_state=word(item_pb2.State, message.from_state) if message.from_state else "",
        to_state=word(item_pb2.State, message.to_state),
        revision=message.revision,
        item=item(message.item) if message.HasField("item") else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Items that hang together, the asked one first, and how: (earlier id, later id, derived | superseded)."""

    items: tuple[Item, ...]
    edges: tuple[tuple[str, str, str], ...]
    truncated: bool


def lineage(message: lifecycle_pb2.LineageResponse) -> Lineage:
    """Give the value of a LineageResponse message."""
    return Lineage(
        items=tuple(item(one) for one in message.items),
        edges=tuple((e.from_id, e.to_id, word(lifecycle_pb2.LineageKind, e.kind)) for e in message.edges),
        truncated=message.truncated,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a filter of Forget meets; the token forgets exactly that, for an hour."""

    matched_count: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A named point in the history of a subtree."""

    id: str
    path: str
    channel: str
    title: str
    user: str
    create_time: datetime | None


def snapshot(message: snapshots_pb2.Snapshot) -> Snapshot:
    """Give the value of a Snapshot message."""
    return Snapshot(
        id=message.id,
        path=message.path,
        channel=message.channel,
        title=message.title,
        user=message.actor.user,
        create_time=moment(message, "create_time"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One item that differs: added, changed, removed or acl."""

    id: str
    kind: str
    fields: tuple[str, ...]
    before: Item | None
    after: Item | None


def difference(message: snapshots_pb2.Difference) -> Difference:
    """Give the value of a Difference message."""
    return Difference(
        id=message.id,
        kind=word(snapshots_pb2.DiffKind, message.kind),
        fields=tuple(message.fields),
        before=item(message.before) if message.HasField("before") else None,
        after=item(message.after) if message.HasField("after") else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """What a rollback did, or would do."""

    reverted_count: int
    forgotten_count: int
    restored_count: int
    erased_count: int
    undo_snapshot_id: str
    job: Job | None


def rollback(message: snapshots_pb2.RollbackResponse) -> Rollback:
    """Give the value of a RollbackResponse message."""
    return Rollback(
        reverted_count=message.reverted_count,
        forgotten_count=message.forgotten_count,
        restored_count=message.restored_count,
        erased_count=message.erased_count,
        undo_snapshot_id=message.undo_snapshot_id,
        job=job(message.job) if message.HasField("job") else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Paths attached to a session, a task or an agent (the target's kind and name)."""

    id: str
    target: tuple[str, str]
    read_paths: tuple[str, ...]
    write_paths: tuple[str, ...]
    owns_working_memory: bool
    expire_time: datetime | None
    create_time: datetime | None


def binding(message: bindings_pb2.Binding) -> Binding:
    """Give the value of a Binding message."""
    kind = message.WhichOneof("target") or ""
    return Binding(
        id=message.id,
        target=(kind.removesuffix("_id"), getattr(message, kind) if kind else ""),
        read_paths=tuple(message.read_paths),
        write_paths=tuple(message.write_paths),
        owns_working_memory=message.owns_working_memory,
        expire_time=moment(message, "expire_time"),
        create_time=moment(message, "create_time"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One long operation. `result` is what came of it, by kind."""

    id: str
    kind: str
    state: str
    phase: str
    done_count: int
    total_count: int
    attempts: int
    error_reason: str
    result: dict[str, Any]
    cancel_requested: bool
    create_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in ("succeeded", "failed", "cancelled")


def job(message: jobs_pb2.Job) -> Job:
    """Give the value of a Job message."""
    return Job(
        id=message.id,
        kind=message.kind,
        state=word(jobs_pb2.JobState, message.state),
        phase=message.phase,
        done_count=message.done_count,
        total_count=message.total_count,
        attempts=message.attempts,
        error_reason=message.error_reason,
        result=json.loads(message.result_json) if message.result_json else {},
        cancel_requested=message.cancel_requested,
        create_time=moment(message, "create_time"),
        start_time=moment(message, "start_time"),
        end_time=moment(message, "end_time"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The signed receipt of a purge. The signature is over `raw`, as it came."""

    raw: bytes
    signature: bytes
    key_id: str

    @property
    def content(self) -> dict[str, Any]:
        """What it says."""
        found: dict[str, Any] = json.loads(self.raw)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one expected item is in an answer or not."""

    id: str
    verdict: str
    rank: int
    score: float | None
    parts: dict[str, float | None]


def explanation(message: memoryfs_pb2.Explanation) -> Explanation:
    """Give the value of an Explanation message."""
    return Explanation(
        id=message.id,
        verdict=word(memoryfs_pb2.Verdict, message.verdict),
        rank=message.rank,
        score=message.score if message.HasField("score") else None,
        parts=score_parts(message.details),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """The state of the vector index of the installation."""

    backend: str
    other_backend: str
    phase: str
    pending_count: int
    oldest_pending_time: datetime | None
    dead_letter_count: int
    unembedded_count: int
    degraded: bool
    embedding_model: str
    dimensions: int


def index_status(message: admin_pb2.IndexStatus) -> IndexStatus:
    """Give the value of an IndexStatus message."""
    return IndexStatus(
        backend=word(admin_pb2.IndexBackend, message.backend),
        other_backend=word(admin_pb2.IndexBackend, message.other_backend) if message.other_backend else "",
        phase=word(admin_pb2.MigrationPhase, message.phase) if message.phase else "",
        pending_count=message.pending_count,
        oldest_pending_time=moment(message, "oldest_pending_time"),
        dead_letter_count=message.dead_letter_count,
        unembedded_count=message.unembedded_count,
        degraded=message.degraded,
        embedding_model=message.embedding_model,
        dimensions=message.dimensions,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """One change of a subtree; give `position` back to go on after it."""

    id: str
    change: Change
    position: str


def feed_event(message: transfer_pb2.WatchResponse) -> FeedEvent:
    """Give the value of a WatchResponse that is no sign of life."""
    return FeedEvent(id=message.id, change=change(message.change), position=message.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of the items of an import."""

    created_count: int = 0
    replaced_count: int = 0
    skipped_count: int = 0
    pending_count: int = 0

    def plus(self, part: transfer_pb2.ImportResponse) -> Imported:
        """Give the sum with one more part."""
        return Imported(
            created_count=self.created_count + part.created_count,
            replaced_count=self.replaced_count + part.replaced_count,
            skipped_count=self.skipped_count + part.skipped_count,
            pending_count=self.pending_count + part.pending_count,
        )
