"""Paths and event keys as the database sees them: keyed, so that no name stands in clear.

A path is the row of the keyed hashes of all its ancestors from the kind down,
8 bytes each. Below means: starts with the same bytes. All hashes have one
length, so a match can only end on a segment border, no character is a
wildcard, and ranges of bytes serve subtrees from a plain index.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.items import EventKey

_HASH_BYTES: Final = 8
KIND_KEY_BYTES: Final = _HASH_BYTES
"""The keys of all places of a kind begin with so many bytes of its own."""


def _keyed(key: bytes, purpose: bytes, text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(), key=key, digest_size=size, person=purpose).digest()


def path_key(key: bytes, path: MemoryPath) -> bytes:
    """Give the key of a path, 8 bytes for the kind and for each segment."""
    parts = []
    so_far = str(path.kind)
    for segment in ("", *path.segments):
        if segment:
            so_far = f"{so_far}/{segment}"
        parts.append(_keyed(key, b"memoryfs.path", so_far, _HASH_BYTES))
    return b"".join(parts)


def keys_above(key: bytes) -> list[bytes]:
    """Give the keys of a path and of all above it, from the kind down."""
    return [key[:size] for size in range(_HASH_BYTES, len(key) + 1, _HASH_BYTES)]


def subtree_end(start: bytes) -> bytes:
    """Give the first key after every key that begins with `start`."""
    number = int.from_bytes(start, "big") + 1
    if number >> (8 * len(start)):  # all bytes 0xff: one chance in 2^64
        return b"\xff" * (len(start) + 200)
    return number.to_bytes(len(start), "big")


def target_hash(key: bytes, kind: int, name: str) -> bytes:
    """Give the keyed hash of a session, a task or an agent, as bindings and working items name it."""
    return _keyed(key, b"memoryfs.target", f"{kind}/{name}", 16)


def event_key_hash(key: bytes, event: EventKey) -> bytes:
    """Give the keyed hash under which items about the same event meet."""
    text = json.dumps([event.subject, event.scope, event.condition], ensure_ascii=False)
    return _keyed(key, b"memoryfs.event", text, 16)


def session_hash(key: bytes, owner: str, session_id: str) -> int:
    """Give the signed 64-bit keyed hash under which the turns of one owner's session meet; 0: of no session."""
    if not session_id:
        return 0
    text = json.dumps([owner, session_id], ensure_ascii=False)
    return int.from_bytes(_keyed(key, b"memoryfs.turns", text, _HASH_BYTES), "big", signed=True) or 1
