"""How many entries a page holds."""

from __future__ import annotations

from collections.abc import Sequence


def page_length(sizes_bytes: Sequence[int], bytes_max: int) -> int:
    """Give how many of the first entries fit into `bytes_max`; one always does."""
    total = 0
    for count, size_bytes in enumerate(sizes_bytes):
        total += size_bytes
        if total > bytes_max and count:
            return count
    return len(sizes_bytes)
