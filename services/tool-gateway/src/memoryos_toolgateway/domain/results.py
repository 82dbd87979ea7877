"""What becomes of an upstream's answer before it is kept or shown: masked, limited, always JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from memoryos_core.canonical import DEPTH_MAX, JsonValue, canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.detectors import masked, names_a_secret
from memoryos_toolgateway.domain.obligations import Obligations
from memoryos_toolgateway.domain.skill import Skill

MASK: Final = "[redacted]"
EVERY: Final = "*"
_ECHO_LENGTH_MIN: Final = 4
"""Shorter sensitive values occur by chance; masking them would spoil every result."""
_NUMBER_DIGITS_MIN: Final = 8
"""Shorter numbers identify nobody."""
_HEAD_SHARE: Final = 0.7
_UNPLACED: Final = (frozenset({"text"}), frozenset({"truncated", "size_bytes", "text"}))
"""Forms of answers that are no JSON, or not whole: pointers lead nowhere in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A result as it is kept and given back."""

    result: bytes
    whole: bytes = b""
    """All of it, where `result` is head and tail only."""


def result_json(
    raw: bytes, skill: Skill, arguments: JsonValue, *, complete: bool = True, secrets: Sequence[str] = ()
) -> bytes:
    """Give the result as canonical JSON, masked as the skill's file says.

    A JSON answer stays what it is; other text becomes {"text": …}. Sensitive
    results, and sensitive arguments and `secrets` that come back, are masked.
    What did not come whole becomes {"truncated": true, "size_bytes": …, "text": …}; its text
    is left out where results of this skill are sensitive and it is not known
    where in it they are.
    """
    value = _value(raw, is_json=complete, keep_text=not skill.sensitive_results)
    for pointer in skill.sensitive_results:
        value = _masked_at(value, pointers.split(pointer))
    sensitive = (found for pointer in skill.sensitive_arguments for found in pointers.find_all(arguments, pointer))
    hidden = _texts([*sensitive, *secrets])
    if hidden:
        value = _without(value, hidden)
        if not complete:
            value = {**value, "text": _without_begun(value["text"], hidden)}
    return canonical_json(value)


def shown(result: bytes, obligations: Obligations, limit_bytes: int) -> Shown:
    """Give what of a result may be kept and shown: masked by pointers, then by detectors, then head and tail.

    A result in which pointers lead nowhere because it is no JSON loses its text.
    """
    if obligations.pointers or obligations.detectors:
        value: Any = parse_json(result, max_bytes=len(result), max_depth=2 * DEPTH_MAX)
        if obligations.pointers and isinstance(value, dict) and frozenset(value) in _UNPLACED:
            value = {**value, "text": MASK}
        for pointer in obligations.pointers:
            value = _masked_at(value, pointers.split(pointer))
        if obligations.detectors:
            value = _detected(value, obligations.detectors)
        result = canonical_json(value)
    limit_bytes = min(limit_bytes, obligations.output_limit_bytes or limit_bytes)
    if len(result) <= limit_bytes:
        return Shown(result=result)
    return Shown(result=_cut(result, limit_bytes), whole=result)


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
    """Give head and tail, joined by a mark that says how much is left out between them."""
    room = limit_bytes
    while room > 0:
        head, tail = encoded[: int(room * _HEAD_SHARE)], encoded[len(encoded) - (room - int(room * _HEAD_SHARE)) :]
        mark = f" …[{len(encoded) - room} bytes left out]… "
        text = head.decode("utf-8", errors="ignore") + mark + tail.decode("utf-8", errors="ignore")
        cut = canonical_json({"truncated": True, "size_bytes": len(encoded), "text": text})
        if len(cut) <= limit_bytes:
            return cut
        room -= max(len(cut) - limit_bytes, 1)
    # Too little room for any text: the largest JSON value that fits.
    return next((form for form in (b'{"truncated":true}', b"{}") if len(form) <= limit_bytes), b"0")


def _masked_at(value: Any, parts: tuple[str, ...]) -> Any:
    if not parts:
        return MASK
    head, rest = parts[0], parts[1:]
    if isinstance(value, dict) and head in value:
        return {**value, head: _masked_at(value[head], rest)}
    if isinstance(value, list):
        # A list is looked through, so /items/secret masks the secret of every item, as /items/*/secret does;
        # an index picks one.
        if head == EVERY:
            return [_masked_at(item, rest) for item in value]
        if head.isdecimal():
            return [_masked_at(item, rest) if index == int(head) else item for index, item in enumerate(value)]
        return [_masked_at(item, parts) for item in value]
    return value


def _detected(value: Any, detectors: frozenset[str]) -> Any:
    """Mask what detectors find in texts, in keys, in long numbers, and in fields that are named like secrets."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, inner in value.items():
            hidden = "secret" in detectors and isinstance(inner, str | int) and names_a_secret(key)
            new = MASK if hidden and not isinstance(inner, bool) else _detected(inner, detectors)
            found[_free(found, masked(key, detectors))] = new
        return found
    if isinstance(value, list):
        return [_detected(inner, detectors) for inner in value]
    if isinstance(value, str):
        return masked(value, detectors)
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
        kept = masked(text, detectors) if len(text) >= _NUMBER_DIGITS_MIN else text
        return value if kept == text else kept
    return value


def _free(taken: dict[str, Any], key: str) -> str:
    """Give a name that is not taken: two keys may be masked alike."""
    number, name = 1, key
    while name in taken:
        number += 1
        name = f"{key} ({number})"
    return name


def _texts(values: Iterable[object]) -> list[str]:
    """Give what is hidden, the longest first: texts and numbers in the values, as they are and within JSON and URLs."""
    found = {text for value in values for text in _leaves(value) if len(text) >= _ECHO_LENGTH_MIN}
    spelled = {spelling for text in found for spelling in (text, json.dumps(text)[1:-1], quote(text, safe=""))}
    spelled |= {json.dumps(text, ensure_ascii=False)[1:-1] for text in found}
    return sorted(spelled, key=len, reverse=True)


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _without_begun(text: str, secrets: list[str]) -> str:
    """Leave out what of a secret stands before the place where an answer was cut off."""
    kept = text.rstrip("\ufffd")  # of a character that was cut
    for secret in secrets:
        for length in range(min(len(secret) - 1, len(kept)), _ECHO_LENGTH_MIN - 1, -1):
            if kept.endswith(secret[:length]):
                return kept[:-length] + MASK
    return text


def _without(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        for key, inner in value.items():
            kept[_free(kept, _masked(key, secrets))] = _without(inner, secrets)
        return kept
    if isinstance(value, list):
        return [_without(inner, secrets) for inner in value]
    if isinstance(value, str):
        return _masked(value, secrets)
    return MASK if isinstance(value, int | float) and str(value) in secrets else value


def _masked(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text
