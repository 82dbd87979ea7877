"""Attributes as filters see them."""

from __future__ import annotations

import json
from typing import Any, Final

TEXT_BYTES_MAX: Final = 256
"""Longer texts cannot be filtered by; they stand sealed in the payload only."""
DEPTH_MAX: Final = 8
"""Nested objects below this depth cannot be filtered by."""
EMPTY: Final = "{}"


def filterable(attributes: bytes) -> str:
    """Give the JSON object that is kept in plain: scalars, lists of scalars, and objects of them."""
    if not attributes or attributes == b"{}":
        return EMPTY
    return json.dumps(_kept(json.loads(attributes), 1), ensure_ascii=False, separators=(",", ":"))


def _kept(value: dict[str, Any], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, inner in value.items():
        if "\0" in key:  # a jsonb cannot hold it
            continue
        if isinstance(inner, dict):
            if depth < DEPTH_MAX:
                kept[key] = _kept(inner, depth + 1)
        elif isinstance(inner, list):
            kept[key] = [one for one in inner if _scalar(one)]
        elif _scalar(inner):
            kept[key] = inner
    return kept


def _scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value.encode()) <= TEXT_BYTES_MAX and "\0" not in value
    return isinstance(value, int | float)
