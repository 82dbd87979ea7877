"""The bytes of a payload before they are sealed, and back."""

from __future__ import annotations

import json
from typing import Any, Final

from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.items import EventKey, Payload, Source

_FORM: Final = 1
"""Number of the layout; a later one must still read the earlier."""


def encode_payload(payload: Payload) -> bytes:
    """Give the bytes to seal."""
    key = payload.event_key
    source = payload.source
    fields: list[Any] = [
        _FORM,
        str(payload.path),
        payload.content,
        payload.attributes.decode(),
        [key.subject, key.scope, key.condition] if key else None,
        [
            source.session_id,
            source.message_ids,
            source.task_id,
            source.call_id,
            source.document,
            source.page,
            source.agent_chain,
        ]
        if source != _NO_SOURCE
        else None,
    ]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


_NO_SOURCE: Final = Source()


def decode_payload(raw: bytes) -> Payload:
    """Give the payload of opened bytes; raises ValueError for a layout that is not known."""
    form, path, content, attributes, key, source = json.loads(raw)
    if form != _FORM:
        raise ValueError(f"payload layout {form} is not known")
    return Payload(
        path=MemoryPath.parse(path),
        content=content,
        attributes=attributes.encode(),
        event_key=EventKey(*key) if key else None,
        source=Source(
            session_id=source[0],
            message_ids=tuple(source[1]),
            task_id=source[2],
            call_id=source[3],
            document=source[4],
            page=source[5],
            agent_chain=tuple(source[6]),
        )
        if source
        else _NO_SOURCE,
    )
