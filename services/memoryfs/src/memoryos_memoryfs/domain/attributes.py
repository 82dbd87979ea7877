"""Attributes as filters see them."""

from __future__ import annotations

import json
from typing import Any, Final

TEXT_BYTES_MAX: Final = 256
"""Longer texts cannot be filtered by; they stand sealed in the payload only."""
DEPTH_MAX: Final = 8
"""Keys that lead to a value; what is deeper cannot be filtered by."""
EMPTY: Final = "{}"
_THERE: Final[dict[str, Any]] = {}
"""Stands for a value that is there and equals nothing: a longer text, an object that is too deep."""


def filterable(attributes: bytes) -> str:
    """Give the JSON object that is kept in plain: scalars, lists of scalars, and objects of them.

    Null is left out. A NUL is kept nowhere (jsonb cannot hold it): a text with
    one is there but equals nothing, a key with one cannot be asked for.
    """
    if not attributes or attributes == b"{}":
        return EMPTY
    return json.dumps(_kept(json.loads(attributes), 1), ensure_ascii=False, separators=(",", ":"))


def _kept(value: dict[str, Any], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, inner in value.items():
        if "\0" in key or inner is None:
            continue
        if isinstance(inner, dict):
            kept[key] = _kept(inner, depth + 1) if depth < DEPTH_MAX else _THERE
        elif isinstance(inner, list):
            kept[key] = [one for one in inner if _comparable(one)]
        else:
            kept[key] = inner if _comparable(inner) else _THERE
    return kept


def _comparable(value: Any) -> bool:
    if isinstance(value, str):
        return len(value.encode()) <= TEXT_BYTES_MAX and "\0" not in value
    return isinstance(value, int | float)
