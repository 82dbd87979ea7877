"""The bytes of a payload before they are sealed, and back."""

from __future__ import annotations

import json
from typing import Any, Final

from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.items import NO_SOURCE, EventKey, Payload, Source

_FORM: Final = 1
"""Number of the layout; a later one must still read the earlier."""


def encode_payload(payload: Payload) -> bytes:
    """Give the bytes to seal."""
    key, source = payload.event_key, payload.source
    # Element by element: the library takes five times as long for the whole, of which most is a long text.
    fields = (
        str(_FORM),
        _text(str(payload.path)),
        _text(payload.content),
        _text(payload.attributes.decode()),
        _encode([key.subject, key.scope, key.condition]) if key else "null",
        _encode(_fields_of(source)) if source is not NO_SOURCE and source != NO_SOURCE else "null",
    )
    return f"[{','.join(fields)}]".encode()


def _fields_of(source: Source) -> list[Any]:
    return [
        source.session_id,
        source.message_ids,
        source.task_id,
        source.call_id,
        source.document,
        source.page,
        source.agent_chain,
    ]


_text: Final = json.encoder.encode_basestring
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


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
        else NO_SOURCE,
    )
