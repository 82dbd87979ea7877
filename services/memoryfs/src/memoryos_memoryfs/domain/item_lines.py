"""An item as one line of an export: JSON with every field, so that the round trip loses nothing.

Lines end with a line feed and nothing else ends one: U+2028 or U+0085 in a text
are text. Attributes stand as the text of their JSON, byte for byte; a vector as
base64 of its fp16 numbers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from memoryos_core.canonical import canonical_json, parse_json
from memoryos_core.errors import InvalidField
from memoryos_core.paths import MemoryPath, PathInvalid
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain.items import (
    NO_SOURCE,
    EmbedState,
    EventKey,
    Flag,
    Item,
    Origin,
    Payload,
    Source,
    State,
    Tier,
    Trust,
)

FORMAT: Final = 1
LINE_BYTES_MAX: Final = 1_000_000
"""An item with its longest text, escaped, and its vector is far below."""


class LineInvalid(ValueError):
    """The line is no item of a known format. The text says what is wrong and quotes nothing."""


def line_of(item: Item, vector: Vector | None = None) -> bytes:
    """Give the line of an item, with its line feed."""
    key = item.payload.event_key
    fields: dict[str, Any] = {
        "format": FORMAT,
        "id": item.id,
        "path": str(item.path),
        "content": item.payload.content,
        "attributes_json": item.payload.attributes.decode(),
        "event_key": [key.subject, key.scope, key.condition] if key else None,
        "source": _source_fields(item.payload.source),
        "tags": list(item.tags),
        "owner": item.owner,
        "user": item.user,
        "readers": list(item.readers),
        "sensitivity": item.sensitivity,
        "trust": item.trust.name,
        "origin": item.origin.name,
        "confidence": item.confidence,
        "importance": item.importance,
        "state": item.state.name,
        "valid_from": _text(item.valid_from),
        "valid_to": _text(item.valid_to),
        "create_time": _text(item.create_time),
        "update_time": _text(item.update_time),
        "expire_time": _text(item.expire_time),
        "tier": item.tier.name,
        "revision": item.revision,
        "etag": item.etag,
        "derived_from": list(item.derived_from),
        "superseded_by": item.superseded_by,
        "pinned": item.pinned,
        "flags": int(item.flags),
        "corroboration_count": item.corroboration_count,
        "embedding_model": item.embedding_model if vector is not None else "",
        "vector": base64.b64encode(vector.astype("<f2").tobytes()).decode() if vector is not None else "",
    }
    return canonical_json(fields) + b"\n"


def parse_line(line: bytes) -> tuple[Item, Vector | None]:
    """Give the item of a line without its line feed, and its vector; raises LineInvalid.

    Only the form is checked here: texts, labels and principals are held to the
    rules of Write by whoever keeps them.
    """
    try:
        fields = parse_json(line, max_bytes=LINE_BYTES_MAX, field="lines")
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise LineInvalid("is no item of a known format")
        return _item(fields), _vector(fields)
    except (InvalidField, PathInvalid) as error:
        raise LineInvalid(error.violations[0].description) from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, LineInvalid):
            raise
        raise LineInvalid("lacks a field, or one is of another kind") from None


def _item(fields: Mapping[str, Any]) -> Item:
    key = fields["event_key"]
    return Item(
        id=_str(fields["id"]),
        payload=Payload(
            path=MemoryPath.parse(_str(fields["path"])),
            content=_str(fields["content"]),
            attributes=_str(fields["attributes_json"]).encode(),
            event_key=EventKey(*_strs(key)) if key else None,
            source=_source(fields["source"]),
        ),
        tags=_strs(fields["tags"]),
        owner=_str(fields["owner"]),
        user=_str(fields["user"]),
        readers=_strs(fields["readers"]),
        sensitivity=_int(fields["sensitivity"]),
        trust=Trust[fields["trust"]],
        origin=Origin[fields["origin"]],
        confidence=_number(fields["confidence"]),
        importance=_number(fields["importance"]),
        state=State[fields["state"]],
        valid_from=_instant(fields["valid_from"]),
        valid_to=_instant(fields["valid_to"]) if fields["valid_to"] else None,
        create_time=_instant(fields["create_time"]),
        update_time=_instant(fields["update_time"]),
        expire_time=_instant(fields["expire_time"]) if fields["expire_time"] else None,
        tier=Tier[fields["tier"]],
        revision=_int(fields["revision"]),
        etag=_str(fields["etag"]),
        derived_from=_strs(fields["derived_from"]),
        superseded_by=_str(fields["superseded_by"]),
        pinned=bool(fields["pinned"]),
        flags=Flag(_int(fields["flags"])),
        corroboration_count=_int(fields["corroboration_count"]),
        embedding_model=_str(fields["embedding_model"]),
        embed_state=EmbedState.DONE if fields["vector"] else EmbedState.PENDING,
    )


def _source(fields: Mapping[str, Any]) -> Source:
    if fields == _NO_SOURCE_FIELDS:
        return NO_SOURCE
    return Source(
        session_id=_str(fields["session_id"]),
        message_ids=_strs(fields["message_ids"]),
        task_id=_str(fields["task_id"]),
        call_id=_str(fields["call_id"]),
        document=_str(fields["document"]),
        page=_int(fields["page"]),
        agent_chain=_strs(fields["agent_chain"]),
    )


def _source_fields(source: Source) -> dict[str, Any]:
    return {
        "session_id": source.session_id,
        "message_ids": list(source.message_ids),
        "task_id": source.task_id,
        "call_id": source.call_id,
        "document": source.document,
        "page": source.page,
        "agent_chain": list(source.agent_chain),
    }


_NO_SOURCE_FIELDS: Final = _source_fields(NO_SOURCE)


def _vector(fields: Mapping[str, Any]) -> Vector | None:
    if not fields["vector"]:
        return None
    raw = binascii.a2b_base64(_str(fields["vector"]), strict_mode=True)
    return np.frombuffer(raw, dtype="<f2").astype(np.float32)


def _text(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else None


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(_str(text))
    if at.tzinfo is None:
        raise LineInvalid("has a time without an offset")
    return at if at.tzinfo is UTC else at.astimezone(UTC)


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _strs(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError
    return tuple([_str(value) for value in values]) if values else ()


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise TypeError
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise TypeError
    return float(value)
