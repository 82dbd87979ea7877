"""A JSON Schema cut down to what endpoints can hold a model to: a guide, wider than the schema itself.

Grammars of small servers refuse patterns, formats and bounds, or grow without
end with them. What is left out here is checked afterwards, by whoever asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_KEPT_AS_THEY_ARE: Final = ("type", "enum", "const", "required", "description", "title")
_SCHEMAS_BY_NAME: Final = ("properties", "$defs")
_LISTS_OF_SCHEMAS: Final = ("anyOf", "oneOf")
_BYTES_MAX: Final = 16_384
_DEPTH_MAX: Final = 16


def relaxed(schema: Mapping[str, Any], *, defs: str = "#/$defs/") -> dict[str, Any]:
    """Give the structure of a schema alone, at most 16 levels deep and 16 KiB long; beyond that any object.

    References lead to definitions below `defs` (where the result will stand),
    or to anything at all.
    """
    result = _relaxed(schema, defs, 0)
    if not isinstance(result, dict) or len(json.dumps(result, ensure_ascii=False).encode()) > _BYTES_MAX:
        return {"type": "object"}
    return result


def _relaxed(schema: Any, defs: str, depth: int) -> Any:
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix("#/$defs/")
        return {"$ref": defs + name} if name != reference and "/" not in name else {}
    kept = {key: schema[key] for key in _KEPT_AS_THEY_ARE if key in schema}
    for key in _SCHEMAS_BY_NAME:
        if isinstance(schema.get(key), Mapping):
            kept[key] = {name: _relaxed(inner, defs, depth + 1) for name, inner in schema[key].items()}
    for key in _LISTS_OF_SCHEMAS:
        if isinstance(schema.get(key), list | tuple):
            kept[key] = [_relaxed(inner, defs, depth + 1) for inner in schema[key]]
    for key in ("items", "additionalProperties"):
        if key in schema:
            kept[key] = _relaxed(schema[key], defs, depth + 1)
    return kept
