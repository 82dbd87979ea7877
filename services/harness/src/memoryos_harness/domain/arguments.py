"""Which arguments are the same, however they are written: told by a digest that is journaled with a call."""

from __future__ import annotations

import hashlib
from typing import Final

from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_harness.domain.outcomes import ARGUMENTS_BYTES_MAX

_JSON: Final = b"json:"
_TEXT: Final = b"text:"


def arguments_digest(arguments: str) -> str:
    """Give the SHA-256 (hex) of arguments as JSON values: 20 and 20.0 are one amount; what is no JSON is itself."""
    try:
        form = _JSON + canonical_json(_whole(parse_json(arguments, max_bytes=ARGUMENTS_BYTES_MAX)))
    except InvalidField:
        form = _TEXT + arguments.encode("utf-8", "surrogatepass")
    return hashlib.sha256(form).hexdigest()


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return value
