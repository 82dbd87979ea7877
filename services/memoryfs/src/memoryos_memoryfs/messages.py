"""Protos to domain values and back. No rule lives here beyond the shape of the messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_core.canonical import canonical_json, parse_json
from memoryos_core.errors import InvalidField
from numpy.typing import NDArray

from memoryos_memoryfs.domain.drafts import Draft
from memoryos_memoryfs.domain.items import NO_SOURCE, EventKey, Item, Origin, Source, Trust

ATTRIBUTES_BYTES_MAX: Final = 32_768
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MASKABLE: Final = frozenset(
    {
        "content",
        "attributes_json",
        "tags",
        "user",
        "readers",
        "sensitivity",
        "trust",
        "source",
        "origin",
        "confidence",
        "importance",
        "valid_from",
        "valid_to",
        "expire_time",
        "ttl",
        "event_key",
        "embedding",
        "pinned",
    }
)
"""Fields of WriteEntry that an update may name."""


def instant(stamp: Timestamp, field: str) -> datetime:
    """Give the instant of a Timestamp, truncated to microseconds; raises InvalidField outside years 1–9999."""
    try:
        if not 0 <= stamp.nanos < 1_000_000_000:
            raise OverflowError
        return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError:
        raise InvalidField.of(field, "is no instant of the years 1 to 9999") from None


def stamp_of(at: datetime) -> Timestamp:
    """Give the Timestamp of an instant."""
    since = at - _EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)


def _ttl(duration: Duration, field: str) -> timedelta:
    try:
        return timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1000)
    except OverflowError:
        raise InvalidField.of(field, "is too long") from None


def _unique(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def draft_of(entry: memoryfs_pb2.WriteEntry, field: str) -> Draft:
    """Give the draft of an entry; `field` is its name in the request, for errors."""
    has = {descriptor.name for descriptor, _ in entry.ListFields()}
    changes = has & _MASKABLE
    if "update_mask" in has:
        if not entry.id:
            raise InvalidField.of(f"{field}.update_mask", "only with id")
        unknown = set(entry.update_mask.paths) - _MASKABLE
        if unknown:
            raise InvalidField.of(f"{field}.update_mask", "names a field that an update cannot change")
        changes = set(entry.update_mask.paths)
        if "embedding" in has:
            changes.add("embedding")
    return Draft(
        id=entry.id,
        if_match=entry.if_match,
        changes=frozenset(changes),
        content=entry.content,
        attributes=attributes_of(entry.attributes_json, f"{field}.attributes_json"),
        tags=_unique(entry.tags) if "tags" in has else (),
        user=entry.user,
        readers=_unique(entry.readers) if "readers" in has else (),
        sensitivity=entry.sensitivity,
        trust=Trust(entry.trust) if entry.trust else None,
        source=source_of(entry.source) if "source" in has else NO_SOURCE,
        origin=Origin(entry.origin) if entry.origin else None,
        confidence=entry.confidence if "confidence" in has else None,
        importance=entry.importance if "importance" in has else None,
        valid_from=instant(entry.valid_from, f"{field}.valid_from") if "valid_from" in has else None,
        valid_to=instant(entry.valid_to, f"{field}.valid_to") if "valid_to" in has else None,
        expire_time=instant(entry.expire_time, f"{field}.expire_time") if "expire_time" in has else None,
        ttl=_ttl(entry.ttl, f"{field}.ttl") if "ttl" in has else None,
        event_key=event_key_of(entry.event_key) if "event_key" in has else None,
        pinned=entry.pinned,
        embedding_model=entry.embedding.model,
        embedding=floats_of(entry.embedding) if "embedding" in has else None,
    )


def floats_of(embedding: memoryfs_pb2.Embedding) -> NDArray[np.float32]:
    """Give the numbers of an embedding; off the wire form, since a look at each costs more than all that follows."""
    count = len(embedding.values)
    wire = embedding.SerializeToString()
    if len(wire) != _field_size(len(embedding.model.encode())) + _field_size(4 * count):
        # Fields that are not known follow the numbers.
        alone = memoryfs_pb2.Embedding()
        alone.values.MergeFrom(embedding.values)
        wire = alone.SerializeToString()
    return np.frombuffer(wire, dtype="<f4", count=count, offset=len(wire) - 4 * count)


def _field_size(size: int) -> int:
    """Give the bytes of a field on the wire, with its tag and its length; nothing for nothing."""
    return size and 1 + (size.bit_length() + 6) // 7 + size


def attributes_of(raw: bytes, field: str) -> bytes:
    """Give the JSON object in canonical form, nothing for nothing."""
    if not raw:
        return b""
    return canonical_json(parse_json(raw, max_bytes=ATTRIBUTES_BYTES_MAX, field=field))


def event_key_of(key: item_pb2.EventKey) -> EventKey | None:
    """Give the event key, None where all its parts are empty."""
    return EventKey(key.subject, key.scope, key.condition) if key.subject or key.scope or key.condition else None


def source_of(source: item_pb2.Source) -> Source:
    """Give the source as stated; task and agent chain are the token's to say."""
    return Source(
        session_id=source.session_id,
        message_ids=tuple(source.message_ids),
        task_id=source.task_id,
        call_id=source.call_id,
        document=source.document,
        page=source.page,
    )


def item_message(item: Item) -> item_pb2.Item:
    """Give the message of an item."""
    key, source = item.payload.event_key, item.payload.source
    return item_pb2.Item(
        id=item.id,
        path=str(item.path),
        content=item.payload.content,
        attributes_json=item.payload.attributes,
        tags=item.tags,
        owner=item.owner,
        user=item.user,
        readers=item.readers,
        sensitivity=item.sensitivity,
        trust=item_pb2.Trust.ValueType(item.trust),
        source=item_pb2.Source(
            session_id=source.session_id,
            message_ids=source.message_ids,
            task_id=source.task_id,
            call_id=source.call_id,
            document=source.document,
            page=source.page,
            agent_chain=source.agent_chain,
        ),
        origin=item_pb2.Origin.ValueType(item.origin),
        confidence=item.confidence,
        importance=item.importance,
        state=item_pb2.State.ValueType(item.state),
        valid_from=stamp_of(item.valid_from),
        valid_to=stamp_of(item.valid_to) if item.valid_to else None,
        create_time=stamp_of(item.create_time),
        update_time=stamp_of(item.update_time),
        expire_time=stamp_of(item.expire_time) if item.expire_time else None,
        tier=item_pb2.Tier.ValueType(item.tier),
        revision=item.revision,
        etag=item.etag,
        derived_from=item.derived_from,
        superseded_by=item.superseded_by,
        event_key=item_pb2.EventKey(subject=key.subject, scope=key.scope, condition=key.condition) if key else None,
        embedding_model=item.embedding_model,
        embed_state=item_pb2.EmbedState.ValueType(item.embed_state),
        pinned=item.pinned,
        flags=[item_pb2.ItemFlag.ValueType(flag.bit_length()) for flag in item.flags],
        corroboration_count=item.corroboration_count,
    )
