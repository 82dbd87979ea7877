"""What a filter means: the one answer that every translation of it has to give.

A filter has two values: a condition on something absent is false, and
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
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memoryos_memoryfs.domain.attributes import filterable
from memoryos_memoryfs.domain.filters import (
    NO_FILTER,
    AllOf,
    Among,
    AnyOf,
    Attribute,
    Between,
    Contains,
    Exists,
    Filter,
    Label,
    NoneOf,
    NotAmong,
    NumberIn,
    OneOf,
    Pinned,
    Tagged,
    TagRule,
    Test,
    TimeIn,
    Value,
    ValueKind,
    decimal_of,
    unknown,
)
from memoryos_memoryfs.domain.items import Item


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
