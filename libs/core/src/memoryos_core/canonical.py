"""JSON that two parsers cannot read differently, and the action digest over it.

Canonical form: sorted keys (by code point), no insignificant space, UTF-8
without escapes beyond the required, integers exact, floats shortest
round-trip, no NaN or infinities, no duplicate keys, text as sent (no Unicode
normalisation).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any, Final

from memoryos_core.errors import InvalidField

JsonValue = None | bool | int | float | str | list[Any] | dict[str, Any]

DEPTH_MAX: Final = 64
INTEGER_DIGITS_MAX: Final = 1000
"""More digits in one number are refused: int() is quadratic in them."""


class _Refused(ValueError):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Refused("a key is there twice")
    return result


def _no_constant(text: str) -> Any:
    raise _Refused(f"{text} is no JSON number")


def _integer(text: str) -> int:
    if len(text) > INTEGER_DIGITS_MAX:
        raise _Refused(f"a number has more than {INTEGER_DIGITS_MAX} digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused("a number is too large")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_int=_integer, parse_float=_float
)


def _depth(text: str) -> int:
    """Give the deepest nesting of brackets outside strings."""
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def parse_json(raw: bytes | str, *, max_bytes: int, max_depth: int = DEPTH_MAX, field: str = "json") -> JsonValue:
    """Give the value of JSON text that has exactly one reading.

    Raises InvalidField naming `field`, never the value, when it is too large or
    too deep, is no UTF-8 or no JSON, or has a duplicate key, NaN, an infinity
    or a lone surrogate.
    """
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        size_bytes = len(raw) if isinstance(raw, bytes) else len(raw.encode())
        if size_bytes > max_bytes:
            raise _Refused(f"more than {max_bytes} bytes")
        # Brackets bound the depth from above; only a suspicious text is walked.
        if text.count("[") + text.count("{") > max_depth and _depth(text) > max_depth:
            raise _Refused(f"nested deeper than {max_depth}")
        value: JsonValue = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # lone surrogates do not encode
    except _Refused as error:
        raise InvalidField.of(field, str(error)) from None
    except UnicodeError:
        raise InvalidField.of(field, "not UTF-8, or a lone surrogate") from None
    except (ValueError, RecursionError):
        raise InvalidField.of(field, "not JSON") from None
    return value


def canonical_json(value: JsonValue) -> bytes:
    """Give the one canonical spelling of a JSON value, in UTF-8.

    Raises InvalidField for NaN, infinities, lone surrogates and types that are
    no JSON; keys must be strings (json.dumps would turn 1 into "1").
    """
    _check_keys(value)
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, UnicodeError):
        raise InvalidField.of("json", "not a JSON value") from None


def _check_keys(value: Any, depth: int = 0) -> None:
    if depth > 2 * DEPTH_MAX:
        raise InvalidField.of("json", "nested too deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidField.of("json", "a key is no string")
            _check_keys(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_keys(inner, depth + 1)


def action_digest(
    *, tenant: str, user: str, chain: Sequence[str], skill: str, version: str, definition_digest: str, arguments: bytes
) -> str:
    """Give the SHA-256 (hex) that names one action: who would do what with which arguments.

    `arguments` is canonical JSON; the digest is over one canonical array
    [tenant, user, chain, skill, version, definition_digest, arguments] (DESIGN §2).
    """
    head = canonical_json([tenant, user, list(chain), skill, version, definition_digest])
    return hashlib.sha256(head[:-1] + b"," + arguments + b"]").hexdigest()
