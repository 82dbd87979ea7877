"""What of an upstream's answer is the result, as the skill's `response` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.skill import ResponseMapping


class NotDone(Exception):
    """The answer says, with a status of success, that it was not done."""


class NotOfTheForm(Exception):
    """The answer is not what the skill says that it is; whether it was done is another question."""


def picked(raw: bytes, mapping: ResponseMapping, *, complete: bool) -> bytes:
    """Give what the result is made of, or raise NotDone or NotOfTheForm.

    Without a mapping that is the answer as it came. With one the answer is JSON
    that came whole; a field that is not there is left out of a picked object,
    and the schema says whether it may.
    """
    if mapping.pick is None and mapping.schema is None and not mapping.success:
        return raw
    try:
        value = parse_json(raw, max_bytes=max(len(raw), 1))
    except InvalidField:
        raise NotOfTheForm from None
    if not complete:
        raise NotOfTheForm
    for pointer, expected in mapping.success.items():
        found = pointers.find(value, pointer)
        if found is pointers.MISSING:
            raise NotOfTheForm
        if not _same(found, expected):
            raise NotDone
    result = _pick(value, mapping.pick)
    if result is pointers.MISSING or (mapping.schema is not None and mapping.schema.violations(result)):
        raise NotOfTheForm
    return canonical_json(result)


def _same(found: Any, expected: JsonValue) -> bool:
    """Tell whether two JSON values are one; 0 is not false."""
    return canonical_json(found) == canonical_json(expected)


def _pick(value: JsonValue, pick: str | Mapping[str, str] | None) -> Any:
    if pick is None:
        return value
    if isinstance(pick, str):
        return pointers.find(value, pick)
    found = {name: pointers.find(value, pointer) for name, pointer in pick.items()}
    return {name: inner for name, inner in found.items() if inner is not pointers.MISSING}
