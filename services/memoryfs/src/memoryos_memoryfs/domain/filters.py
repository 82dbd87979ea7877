"""Filters: a closed set of conditions on items. What each of them means is in domain/filter_meaning.py."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, NoReturn

from memoryos_core.paths import Kind

DEPTH_MAX: Final = 8
CONDITIONS_MAX: Final = 64


class FilterUnknown(TypeError):
    """A node that is no filter: nobody answers it, least of all with everything."""


class Label(StrEnum):
    """What an item has one of, from a small set."""

    USER = "user"
    OWNER = "owner"
    KIND = "kind"
    ORIGIN = "origin"
    STATE = "state"
    TRUST = "trust"


class Quantity(StrEnum):
    """Numbers of an item."""

    CONFIDENCE = "confidence"
    IMPORTANCE = "importance"


class Moment(StrEnum):
    """Instants of an item."""

    VALID_FROM = "valid_from"
    CREATE_TIME = "create_time"
    UPDATE_TIME = "update_time"


class TagRule(StrEnum):
    """How the tags of an item and those asked for are to meet."""

    ALL = "all"
    ANY = "any"
    EXACT = "exact"


class ValueKind(StrEnum):
    """Kinds of attribute values; two of different kinds are never compared."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Value:
    """A value that an attribute is compared with."""

    kind: ValueKind
    value: str | Decimal | bool | datetime


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of the filters holds; without any: it lets everything through."""

    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the filters holds; without any: nothing."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """None of the filters holds; without any: everything."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Tagged:
    """The tags meet those asked for."""

    rule: TagRule
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """The label is one of these; enums by their number. Without any: nothing."""

    label: Label
    values: tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberIn:
    """The number lies in the range; an absent bound is open."""

    quantity: Quantity
    min: float | None = None
    max: float | None = None
    max_inclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeIn:
    """The instant lies in the half-open range; an absent bound is open."""

    moment: Moment
    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pinned:
    """It is pinned, or is not."""

    pinned: bool


@dataclass(frozen=True, slots=True)
class Among:
    """It is there and equals one of these; without any: nothing."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class NotAmong:
    """It is a single value of the kind of one of these (of any kind, without any) and equals none of them."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """It is of the bounds' kind, not below `min` and below `max`; one bound may be absent."""

    min: Value | None
    max: Value | None

    @property
    def kind(self) -> ValueKind:
        """Kind of both bounds."""
        bound = self.min or self.max
        assert bound is not None
        return bound.kind


@dataclass(frozen=True, slots=True)
class Exists:
    """It is there and not null, or is not."""

    exists: bool


@dataclass(frozen=True, slots=True)
class Contains:
    """It is a list that holds this value."""

    value: Value


Test = Among | NotAmong | Between | Exists | Contains


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value that the keys of `path` lead to, from object to object, passes the test."""

    path: tuple[str, ...]
    test: Test


Filter = AllOf | AnyOf | NoneOf | Tagged | OneOf | NumberIn | TimeIn | Pinned | Attribute
NO_FILTER: Final = AllOf()


def unknown(node: object) -> NoReturn:
    """Raise for a node that is no filter."""
    raise FilterUnknown(f"{type(node).__name__} is no filter")


def decimal_of(number: float) -> Decimal:
    """Give a number as JSON writes it: of two floats the greater is the greater decimal, whole numbers are exact."""
    return Decimal(repr(number))


KINDS: Final = frozenset(str(kind) for kind in Kind)
"""The kinds that a filter may name."""
