"""An export for people: one folder per user, plain words first.

    {user}/profile.json           who it is about, how much there is, since when
    {user}/facts.jsonl            semantic items, oldest first
    {user}/episodes/{day}.jsonl   episodic items by the day on which they began to hold (UTC)
    {user}/working.jsonl          working items

A user's name becomes a folder name by percent-encoding everything but letters,
digits, `-` and `_` of any script, so that none can leave its place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from memoryos_memoryfs.domain.items import Item

_LINE_FILES: Final = {"semantic": "facts.jsonl", "working": "working.jsonl"}


class ReadableFolder:
    """The folder of the user whom items concern (else their owner); items come in order of valid_from."""

    def __init__(self, first: Item) -> None:
        self._user = first.data_subject
        self._lines: dict[str, list[str]] = {}
        self._tags: Counter[str] = Counter()
        self._count = 0
        self._first, self._last = first.valid_from, first.valid_from

    def holds(self, item: Item) -> bool:
        """Tell whether the item belongs into this folder."""
        return item.data_subject == self._user

    def add(self, item: Item) -> None:
        """Put an item down."""
        self._count += 1
        self._tags.update(item.tags)
        self._first, self._last = min(self._first, item.valid_from), max(self._last, item.valid_from)
        file = _LINE_FILES.get(str(item.path.kind)) or f"episodes/{item.valid_from.date().isoformat()}.jsonl"
        self._lines.setdefault(file, []).append(_plain(item))

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Give the files with their paths."""
        name = folder_name(self._user)
        profile = {
            "user": self._user,
            "item_count": self._count,
            "first_time": self._first.isoformat(),
            "last_time": self._last.isoformat(),
            "tags": dict(sorted(self._tags.items(), key=lambda tag: (-tag[1], tag[0]))),
        }
        yield f"{name}/profile.json", (json.dumps(profile, ensure_ascii=False, indent=2) + "\n").encode()
        for file in sorted(self._lines):
            yield f"{name}/{file}", "".join(self._lines[file]).encode()


def folder_name(user: str) -> str:
    """Give the name of a user's folder."""
    return "".join(c if c.isalnum() or c in "-_" else "".join(f"%{b:02X}" for b in c.encode()) for c in user) or "%00"


def _plain(item: Item) -> str:
    said: dict[str, Any] = {
        "id": item.id,
        "content": item.payload.content,
        "time": item.valid_from.isoformat(),
        "until": item.valid_to.isoformat() if item.valid_to else None,
        "attributes": json.loads(item.payload.attributes) if item.payload.attributes else None,
        "tags": list(item.tags) or None,
        "state": item.state.name.lower(),
        "origin": item.origin.name.lower(),
        "confidence": item.confidence,
        "path": str(item.path),
    }
    return json.dumps({key: value for key, value in said.items() if value is not None}, ensure_ascii=False) + "\n"
