"""Enum values as lower-case words: STATE_ACTIVE ⇄ "active"."""

from __future__ import annotations

from typing import Any

from memoryos_sdk.errors import InvalidArgument


def word(enum: Any, number: int) -> str:
    """Give the word of an enum value; a value of a newer service is its number as text."""
    value = enum.DESCRIPTOR.values_by_number.get(number)
    return value.name.removeprefix(prefix(enum)).lower() if value is not None else str(number)


def number(enum: Any, text: object, field: str) -> Any:
    """Give the enum value of a word; another word is InvalidArgument naming the known ones."""
    known = {value.name.removeprefix(prefix(enum)).lower(): value.number for value in enum.DESCRIPTOR.values}
    known.pop("unspecified", None)
    if not isinstance(text, str) or text not in known:
        raise InvalidArgument.of(field, f"must be one of {', '.join(known)}")
    return known[text]


def prefix(enum: Any) -> str:
    """Give the prefix that all values of the enum share, taken from the zero value."""
    name: str = enum.DESCRIPTOR.values_by_number[0].name
    return name.removesuffix("UNSPECIFIED")
