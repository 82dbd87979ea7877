"""What MemoryFS answers, as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, overload

from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2

from memoryos_sdk.names import word
from memoryos_sdk.times import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an item came from."""

    session_id: str
    message_ids: tuple[str, ...]
    task_id: str
    call_id: str
    document: str
    page: int
    agent_chain: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing remembered. Enums are lower-case words, times are UTC, absent times None."""

    id: str
    path: str
    content: str
    attributes: dict[str, Any]
    tags: tuple[str, ...]
    owner: str
    user: str
    readers: tuple[str, ...]
    sensitivity: int
    trust: str
    source: Source
    origin: str
    confidence: float
    importance: float
    state: str
    valid_from: datetime | None
    valid_to: datetime | None
    create_time: datetime | None
    update_time: datetime | None
    expire_time: datetime | None
    tier: str
    revision: int
    etag: str
    derived_from: tuple[str, ...]
    superseded_by: str
    event_key: dict[str, str]
    embedding_model: str
    embed_state: str
    pinned: bool
    corroboration_count: int
    """Independent sources that said the same, beside the first."""
    flags: tuple[str, ...]
    """What a reader should know: instruction_like, source_changed, disputed."""
    hit_count: int | None
    last_hit_time: datetime | None
    """How it was used; None unless asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What became of one entry. `gated`: below the confidence gate, so it is a candidate.

    `outcome`: created, updated, corroborated (it re-states the item `id` from an
    independent source) or known (from the same source: nothing was changed).
    """

    id: str
    revision: int
    etag: str
    state: str
    gated: bool
    embed_state: str
    outcome: str
    superseded_ids: tuple[str, ...]
    """Items about the same event that it replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One recalled item with its score (0..1, higher is better) and how it came about."""

    item: Item
    score: float
    dense: float | None
    lexical: float | None
    neighbours: float | None
    """What the turns beside it in its session added."""
    recency: float | None
    importance: float | None
    use: float | None
    rerank: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult(Sequence[Hit]):
    """Hits, best first; it can be used like a list of them."""

    hits: tuple[Hit, ...]
    exactness: str
    degradations: tuple[str, ...]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]


def item(message: item_pb2.Item) -> Item:
    """Give the value of an Item message."""
    source = message.source
    return Item(
        id=message.id,
        path=message.path,
        content=message.content,
        attributes=json.loads(message.attributes_json) if message.attributes_json else {},
        tags=tuple(message.tags),
        owner=message.owner,
        user=message.user,
        readers=tuple(message.readers),
        sensitivity=message.sensitivity,
        trust=word(item_pb2.Trust, message.trust),
        source=Source(
            session_id=source.session_id,
            message_ids=tuple(source.message_ids),
            task_id=source.task_id,
            call_id=source.call_id,
            document=source.document,
            page=source.page,
            agent_chain=tuple(source.agent_chain),
        ),
        origin=word(item_pb2.Origin, message.origin),
        confidence=message.confidence,
        importance=message.importance,
        state=word(item_pb2.State, message.state),
        valid_from=moment(message, "valid_from"),
        valid_to=moment(message, "valid_to"),
        create_time=moment(message, "create_time"),
        update_time=moment(message, "update_time"),
        expire_time=moment(message, "expire_time"),
        tier=word(item_pb2.Tier, message.tier),
        revision=message.revision,
        etag=message.etag,
        derived_from=tuple(message.derived_from),
        superseded_by=message.superseded_by,
        event_key={
            "subject": message.event_key.subject,
            "scope": message.event_key.scope,
            "condition": message.event_key.condition,
        }
        if message.HasField("event_key")
        else {},
        embedding_model=message.embedding_model,
        embed_state=word(item_pb2.EmbedState, message.embed_state),
        pinned=message.pinned,
        corroboration_count=message.corroboration_count,
        flags=tuple(word(item_pb2.ItemFlag, flag) for flag in message.flags),
        hit_count=message.access.hit_count if message.HasField("access") else None,
        last_hit_time=moment(message.access, "last_hit_time"),
    )


def write_result(message: memoryfs_pb2.WriteResult) -> WriteResult:
    """Give the value of a WriteResult message."""
    return WriteResult(
        id=message.id,
        revision=message.revision,
        etag=message.etag,
        state=word(item_pb2.State, message.state),
        gated=message.gated,
        embed_state=word(item_pb2.EmbedState, message.embed_state),
        outcome=word(memoryfs_pb2.WriteOutcome, message.outcome),
        superseded_ids=tuple(message.superseded_ids),
    )


def read_result(message: memoryfs_pb2.ReadResponse) -> ReadResult:
    """Give the value of a ReadResponse message."""
    return ReadResult(
        hits=tuple(
            Hit(
                item=item(hit.item),
                score=hit.score,
                **score_parts(hit.details),
            )
            for hit in message.hits
        ),
        exactness=word(memoryfs_pb2.Exactness, message.exactness),
        degradations=tuple(word(memoryfs_pb2.Degradation, d) for d in message.degradations),
    )


def score_parts(details: memoryfs_pb2.ScoreDetails) -> dict[str, float | None]:
    """Give the parts of a score by name; None where a part did not take part."""
    names = ("dense", "lexical", "neighbours", "recency", "importance", "use", "rerank")
    present = {descriptor.name for descriptor, _ in details.ListFields()}
    return {name: getattr(details, name) if name in present else None for name in names}
