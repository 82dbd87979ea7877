"""How large an answer may be: below the 4 MiB that gRPC clients take unless they are told otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_memoryfs.domain.items import Item

ANSWER_BYTES_MAX: Final = 7 * 512 * 1024
_FIXED_BYTES: Final = 2_048
"""More than the other fields of an item take, its path and labels among them, but for extremes."""


def fitting(items: Sequence[Item]) -> int:
    """Give how many of `items`, from the first on, fit into one answer; at least one."""
    size_bytes = 0
    for count, item in enumerate(items):
        size_bytes += len(item.payload.content.encode()) + len(item.payload.attributes) + _FIXED_BYTES
        if size_bytes > ANSWER_BYTES_MAX:
            return max(count, 1)
    return len(items)
