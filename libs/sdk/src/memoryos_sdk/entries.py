"""`meta` as callers write it → WriteEntry. Closed: an unknown key is InvalidArgument, for a mistyped one is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta, tzinfo
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos_core.canonical import canonical_json
from memoryos_core.errors import InvalidField

from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.names import number
from memoryos_sdk.times import timestamp

Entry = memoryfs_pb2.WriteEntry
Embedding = tuple[str, Sequence[float]]
"""Model id and vector, for callers that embed by themselves."""

_Setter = Callable[[Entry, Any, tzinfo | None, str], None]


def write_entry(
    *,
    content: str | None,
    meta: Mapping[str, Any] | None,
    item_id: str | None = None,
    if_match: str | None = None,
    embedding: Embedding | None = None,
    zone: tzinfo | None = None,
    field: str = "",
) -> Entry:
    """Give one entry. With `item_id` exactly the given content and keys change; None clears a key.

    `field` is put before the names in errors, e.g. "entries[3].".
    """
    entry = Entry(id=item_id or "", if_match=if_match or "")
    changed: list[str] = []
    if content is not None:
        _set_plain(entry, "content", content, f"{field}content")
        changed.append("content")
    for key, value in (meta or {}).items():
        if key not in _META:
            raise InvalidArgument.of(f"{field}meta.{key}", f"unknown; known are {', '.join(_META)}")
        name, setter = _META[key]
        changed.append(name)
        if value is not None:
            setter(entry, value, zone, f"{field}meta.{key}")
    if embedding is not None:
        model, values = embedding
        entry.embedding.CopyFrom(memoryfs_pb2.Embedding(model=model, values=values))
    if item_id:
        entry.update_mask.CopyFrom(FieldMask(paths=changed))
    return entry


def _set_plain(message: Any, name: str, value: Any, field: str) -> None:
    if isinstance(value, bool):
        raise InvalidArgument.of(field, "must not be a boolean")
    try:
        setattr(message, name, value)
    except (TypeError, ValueError):
        raise InvalidArgument.of(field, f"a {type(value).__name__} of this value does not fit") from None


def _plain(name: str) -> tuple[str, _Setter]:
    return name, lambda entry, value, _zone, field: _set_plain(entry, name, value, field)


def _list(name: str) -> tuple[str, _Setter]:
    def setter(entry: Entry, value: Any, _zone: tzinfo | None, field: str) -> None:
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list | tuple | set) or not all(isinstance(w, str) for w in words):
            raise InvalidArgument.of(field, "must be a list of strings")
        getattr(entry, name).extend(words)

    return name, setter


def _time(name: str) -> tuple[str, _Setter]:
    return name, lambda entry, value, zone, field: getattr(entry, name).CopyFrom(timestamp(value, zone, field))


def _enum(name: str, enum: Any) -> tuple[str, _Setter]:
    return name, lambda entry, value, _zone, field: setattr(entry, name, number(enum, value, field))


def _message(name: str) -> tuple[str, _Setter]:
    def setter(entry: Entry, value: Any, _zone: tzinfo | None, field: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidArgument.of(field, "must be a mapping")
        target = getattr(entry, name)
        target.SetInParent()
        known = [f.name for f in target.DESCRIPTOR.fields]
        for key, inner in value.items():
            if key not in known:
                raise InvalidArgument.of(f"{field}.{key}", f"unknown; known are {', '.join(known)}")
            if isinstance(inner, list | tuple):
                getattr(target, key).extend(inner)
            elif inner is not None:
                _set_plain(target, key, inner, f"{field}.{key}")

    return name, setter


def _set_attributes(entry: Entry, value: Any, _zone: tzinfo | None, field: str) -> None:
    if not isinstance(value, Mapping):
        raise InvalidArgument.of(field, "must be a mapping")
    entry.attributes_json = json_object(value, field)


def _set_ttl(entry: Entry, value: Any, _zone: tzinfo | None, field: str) -> None:
    if not isinstance(value, timedelta):
        raise InvalidArgument.of(field, "must be a timedelta")
    entry.ttl.FromTimedelta(value)


def _set_pinned(entry: Entry, value: Any, _zone: tzinfo | None, field: str) -> None:
    if not isinstance(value, bool):
        raise InvalidArgument.of(field, "must be true or false")
    entry.pinned = value


_META: Final[dict[str, tuple[str, _Setter]]] = {
    "user": _plain("user"),
    "time": _time("valid_from"),
    "valid_to": _time("valid_to"),
    "confidence": _plain("confidence"),
    "importance": _plain("importance"),
    "tags": _list("tags"),
    "attributes": ("attributes_json", _set_attributes),
    "readers": _list("readers"),
    "sensitivity": _plain("sensitivity"),
    "trust": _enum("trust", item_pb2.Trust),
    "origin": _enum("origin", item_pb2.Origin),
    "source": _message("source"),
    "event_key": _message("event_key"),
    "expire_time": _time("expire_time"),
    "ttl": ("ttl", _set_ttl),
    "pinned": ("pinned", _set_pinned),
}


def json_object(value: Mapping[str, Any] | str | bytes, field: str) -> bytes:
    """Give JSON bytes to send: a mapping in canonical form, text and bytes as they are."""
    if isinstance(value, str | bytes):
        try:
            return value.encode() if isinstance(value, str) else value
        except UnicodeError:
            raise InvalidArgument.of(field, "holds a lone surrogate") from None
    try:
        return canonical_json(dict(value))
    except InvalidField as error:
        raise InvalidArgument.of(field, error.message) from None


def json_value(raw: bytes) -> Any:
    """Give the value of JSON bytes of an answer; none is None."""
    return json.loads(raw) if raw else None
