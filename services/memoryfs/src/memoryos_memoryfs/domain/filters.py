"""Filters: a closed set of conditions on items, and what each of them means.

`matches` is the meaning: the one answer that every translation of a filter has
to give. It has two values: a condition on something absent is false, and
`NoneOf` turns false into true.

Attributes are compared as filters see them (domain/attributes.py): null is
absent, and texts of more than 256 bytes and values more than 8 keys deep are
there but equal nothing. Kinds are never mixed: "5" is no number and true is not
1, but 5 and 5.0 are one number. Numbers are compared as they are written in
decimal, so 2^53 + 1 stays apart from 2^53. A time compares with texts in the
form of RFC 3339 with an offset, by the instant; all other texts are of another
kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NoReturn

from memoryos_core.paths import Kind

from memoryos_memoryfs.domain.attributes import filterable
from memoryos_memoryfs.domain.items import Item

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


def matches(filter: Filter, item: Item) -> bool:
    """Tell whether the filter lets the item through; raises FilterUnknown for a node that is none."""
    if filter == NO_FILTER:
        return True
    return _matches(filter, item, json.loads(filterable(item.payload.attributes)))


def _matches(node: Filter, item: Item, attributes: Mapping[str, Any]) -> bool:
    match node:
        case AllOf():
            return all(_each(node.filters, item, attributes))
        case AnyOf():
            return any(_each(node.filters, item, attributes))
        case NoneOf():
            return not any(_each(node.filters, item, attributes))
        case Tagged():
            return _tagged(node, frozenset(item.tags))
        case OneOf():
            return _label(node.label, item) in node.values
        case NumberIn():
            return _in_range(node, getattr(item, node.quantity))
        case TimeIn():
            at = getattr(item, node.moment)
            return (node.start is None or at >= node.start) and (node.end is None or at < node.end)
        case Pinned():
            return item.pinned == node.pinned
        case Attribute():
            return passes(node.test, _found(attributes, node.path))
    unknown(node)


def _each(filters: Collection[Filter], item: Item, attributes: Mapping[str, Any]) -> list[bool]:
    """Ask every one, also after the answer is clear: a node that is no filter never passes unseen."""
    return [_matches(one, item, attributes) for one in filters]


def _tagged(node: Tagged, tags: frozenset[str]) -> bool:
    match node.rule:
        case TagRule.ALL:
            return tags.issuperset(node.tags)
        case TagRule.ANY:
            return not tags.isdisjoint(node.tags)
        case TagRule.EXACT:
            return tags == frozenset(node.tags)
    unknown(node.rule)


def _label(label: Label, item: Item) -> str | int:
    match label:
        case Label.USER:
            return item.user
        case Label.OWNER:
            return item.owner
        case Label.KIND:
            return str(item.path.kind)
        case Label.ORIGIN:
            return int(item.origin)
        case Label.STATE:
            return int(item.state)
        case Label.TRUST:
            return int(item.trust)
    unknown(label)


def _in_range(node: NumberIn, number: float) -> bool:
    above = node.min is None or number >= node.min
    below = node.max is None or number < node.max or (node.max_inclusive and number == node.max)
    return above and below


def _found(attributes: Mapping[str, Any], path: Collection[str]) -> Any:
    """Give the value at `path`, None where there is none."""
    value: Any = attributes
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def passes(test: Test, found: Any) -> bool:
    """Tell whether a JSON value passes a test; None: it is absent or null."""
    match test:
        case Among():
            return any(_compare(found, value, _equal) for value in test.values)
        case NotAmong():
            kinds = {value.kind for value in test.values} or set(ValueKind)
            return any(_read(found, kind) is not None for kind in kinds) and not any(
                _compare(found, value, _equal) for value in test.values
            )
        case Between():
            return (test.min is None or _compare(found, test.min, lambda a, b: bool(a >= b))) and (
                test.max is None or _compare(found, test.max, lambda a, b: bool(a < b))
            )
        case Exists():
            return (found is not None) == test.exists
        case Contains():
            return isinstance(found, list) and any(_compare(one, test.value, _equal) for one in found)
    unknown(test)


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b)


def _compare(found: Any, value: Value, holds: Callable[[Any, Any], bool]) -> bool:
    own = _read(found, value.kind)
    asked = micros_of(value.value) if isinstance(value.value, datetime) else value.value
    return own is not None and holds(own, asked)


def _read(found: Any, kind: ValueKind) -> Any:
    """Give a JSON value in the form in which values of this kind are compared; None: it is of another kind."""
    match kind:
        case ValueKind.TEXT:
            return found if isinstance(found, str) else None
        case ValueKind.NUMBER:
            return decimal_of(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
        case ValueKind.FLAG:
            return found if isinstance(found, bool) else None
        case ValueKind.TIME:
            return read_instant(found) if isinstance(found, str) else None
    unknown(kind)


def decimal_of(number: float) -> Decimal:
    """Give a number as JSON writes it: of two floats the greater is the greater decimal, whole numbers are exact."""
    return Decimal(repr(number))


_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]((?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(\.[0-9]{1,9})?"
    r"(?:[Zz]|([+-])(0[0-9]|1[0-5]):([0-5][0-9]))"
)
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


def read_instant(text: str) -> int | None:
    """Give the instant that RFC 3339 text names, in microseconds since 1970; None for other text.

    Years 1 to 9999, offsets up to 15:59, seconds up to 59; what is finer than a microsecond is cut off.
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, sign, hours, minutes = match.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{clock}")
    except ValueError:  # the 30th of February
        return None
    micros = int((fraction or ".0")[1:7].ljust(6, "0"))
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    return (local - _EPOCH - offset) // _MICROSECOND + micros


def micros_of(at: datetime) -> int:
    """Give an aware instant in microseconds since 1970."""
    return (at.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // _MICROSECOND


KINDS: Final = frozenset(str(kind) for kind in Kind)
"""The kinds that a filter may name."""
