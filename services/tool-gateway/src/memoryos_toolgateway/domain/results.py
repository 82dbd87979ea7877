"""What becomes of an upstream's answer before it is kept or shown: masked, limited, always JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.skill import Skill

MASK: Final = "[redacted]"
_ECHO_LENGTH_MIN: Final = 4
"""Shorter sensitive values occur by chance; masking them would spoil every result."""


def result_json(raw: bytes, skill: Skill, arguments: JsonValue, *, complete: bool = True) -> bytes:
    """Give the result as canonical JSON of at most `skill.output_limit_bytes`.

    A JSON answer stays what it is; other text becomes {"text": …}. Sensitive
    results, and sensitive arguments that come back, are masked. What is too
    long, or did not come whole, becomes {"truncated": true, "size_bytes": …,
    "text": …}; its text is left out where results of this skill are sensitive
    and it is not known where in it they are.
    """
    value = _value(raw, is_json=complete, keep_text=not skill.sensitive_results)
    for pointer in skill.sensitive_results:
        value = _masked_at(value, pointers.split(pointer))
    secrets = _texts(found for pointer in skill.sensitive_arguments for found in pointers.find_all(arguments, pointer))
    if secrets:
        value = _without(value, secrets)
    encoded = canonical_json(value)
    return encoded if len(encoded) <= skill.output_limit_bytes else _cut(encoded, skill.output_limit_bytes)


def _value(raw: bytes, *, is_json: bool, keep_text: bool) -> JsonValue:
    text = raw.decode("utf-8", errors="replace") if keep_text else MASK
    if not is_json:
        return {"truncated": True, "size_bytes": len(raw), "text": text}
    if not raw.strip():
        return {}
    try:
        return parse_json(raw, max_bytes=len(raw))
    except InvalidField:
        return {"text": text}


def _cut(encoded: bytes, limit_bytes: int) -> bytes:
    room = limit_bytes
    while True:
        text = encoded[:room].decode("utf-8", errors="ignore")
        cut = canonical_json({"truncated": True, "size_bytes": len(encoded), "text": text})
        if len(cut) <= limit_bytes:
            return cut
        room -= max(len(cut) - limit_bytes, 1)


def _masked_at(value: Any, parts: tuple[str, ...]) -> Any:
    if not parts:
        return MASK
    head, rest = parts[0], parts[1:]
    if isinstance(value, dict) and head in value:
        return {**value, head: _masked_at(value[head], rest)}
    if isinstance(value, list):
        # A list is looked through, so /items/secret masks the secret of every item; an index picks one.
        if head.isdecimal():
            return [_masked_at(item, rest) if index == int(head) else item for index, item in enumerate(value)]
        return [_masked_at(item, parts) for item in value]
    return value


def _texts(values: Iterable[object]) -> list[str]:
    found = [str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool)]
    return sorted((text for text in found if len(text) >= _ECHO_LENGTH_MIN), key=len, reverse=True)


def _without(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, dict):
        return {_masked(key, secrets): _without(inner, secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without(inner, secrets) for inner in value]
    if isinstance(value, str):
        return _masked(value, secrets)
    return MASK if isinstance(value, int) and str(value) in secrets else value


def _masked(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text
