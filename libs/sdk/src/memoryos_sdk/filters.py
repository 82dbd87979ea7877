"""`filters` as callers write them → Filter. Closed: an unknown key is InvalidArgument, never a wider answer.

{"user": "u1", "tags": ["a", "b"], "kind": "semantic", "confidence": (0.8, None),
 "attributes": {"amount": {"range": (5, 10)}, ("order", "id"): "WR-1024", "paid": {"exists": True}},
 "any_of": [{"origin": "stated"}, {"pinned": True}], "none_of": [{"tags": "old"}]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, tzinfo
from typing import Any, Final

from memoryos.memoryfs.v1 import filter_pb2, item_pb2

from memoryos_sdk.errors import InvalidArgument
from memoryos_sdk.names import number
from memoryos_sdk.times import time_range, timestamp

Filters = Mapping[str, Any]
_Operator = Callable[[Any, str, Any, tuple["tzinfo | None", str]], None]
_Setter = Callable[[filter_pb2.Filter, Any, tzinfo | None, str], None]


def read_filter(filters: Filters | None, zone: tzinfo | None, field: str = "filters") -> filter_pb2.Filter:
    """Give the Filter of `filters`; None and {} are no condition."""
    found = filter_pb2.Filter()
    for key, value in (filters or {}).items():
        if key not in _SETTERS:
            raise InvalidArgument.of(f"{field}.{key}", f"unknown; known are {', '.join(FILTERS)}")
        if value is not None:
            _SETTERS[key](found, value, zone, f"{field}.{key}")
    return found


def words(value: object, field: str) -> list[str]:
    """Give one or several strings as a list; an empty list would be no condition and is refused."""
    found = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple | set) else []
    if not found or not all(isinstance(w, str) for w in found):
        raise InvalidArgument.of(field, "must be a string or a list of at least one string")
    return found


def _words(name: str) -> _Setter:
    return lambda found, value, _zone, field: getattr(found, name).extend(words(value, field))


def _enums(name: str, enum: Any) -> _Setter:
    return lambda found, value, _zone, field: getattr(found, name).extend(
        number(enum, word, field) for word in words(value, field)
    )


def _times(name: str) -> _Setter:
    return lambda found, value, zone, field: getattr(found, name).CopyFrom(time_range(value, zone, field))


def _numbers(name: str) -> _Setter:
    def setter(found: filter_pb2.Filter, value: Any, _zone: tzinfo | None, field: str) -> None:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise InvalidArgument.of(field, "must be a pair (min, max); max is not in it, None leaves a side open")
        target = getattr(found, name)
        target.SetInParent()
        for bound, given in zip(("min", "max"), value, strict=True):
            if given is not None:
                setattr(target, bound, _number(given, field))

    return setter


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument.of(field, "must be a number")
    return float(value)


def _tags_exact(found: filter_pb2.Filter, value: Any, _zone: tzinfo | None, field: str) -> None:
    found.tags_exact.SetInParent()
    if value:
        found.tags_exact.tags.extend(words(value, field))


def _pinned(found: filter_pb2.Filter, value: Any, _zone: tzinfo | None, field: str) -> None:
    if not isinstance(value, bool):
        raise InvalidArgument.of(field, "must be true or false")
    found.pinned = value


def _min_confidence(found: filter_pb2.Filter, value: Any, _zone: tzinfo | None, field: str) -> None:
    found.min_confidence = _number(value, field)


def _nested(name: str) -> _Setter:
    def setter(found: filter_pb2.Filter, value: Any, zone: tzinfo | None, field: str) -> None:
        if not isinstance(value, list | tuple) or not value or not all(isinstance(one, Mapping) for one in value):
            raise InvalidArgument.of(field, "must be a list of at least one filter")
        getattr(found, name).extend(read_filter(one, zone, f"{field}[{n}]") for n, one in enumerate(value))

    return setter


def _attributes(found: filter_pb2.Filter, value: Any, zone: tzinfo | None, field: str) -> None:
    if not isinstance(value, Mapping):
        raise InvalidArgument.of(field, "must be a mapping of keys, or tuples of keys, to conditions")
    for path, condition in value.items():
        name = f"{field}.{path}"
        keys = [path] if isinstance(path, str) else list(path)
        given = condition if isinstance(condition, Mapping) else {"eq": condition}
        for operator, operand in given.items():
            apply = _OPERATORS.get(operator, _no_operator)
            apply(found.attributes.add(path=keys), operator, operand, (zone, name))


def _no_operator(_target: Any, _operator: str, _operand: Any, at: tuple[tzinfo | None, str]) -> None:
    raise InvalidArgument.of(at[1], f"unknown operator; known are {', '.join(_OPERATORS)}")


def _one(target: Any, operator: str, operand: Any, at: tuple[tzinfo | None, str]) -> None:
    getattr(target, operator).CopyFrom(_value(operand, at))


def _many(target: Any, operator: str, operand: Any, at: tuple[tzinfo | None, str]) -> None:
    if not isinstance(operand, list | tuple | set) or not operand:
        raise InvalidArgument.of(at[1], "must be a list of at least one value")
    # `in` is no name in Python; the field is reached by its descriptor's name.
    getattr(target, operator).values.extend(_value(one, at) for one in operand)


def _range(target: Any, _operator: str, operand: Any, at: tuple[tzinfo | None, str]) -> None:
    if not isinstance(operand, tuple | list) or len(operand) != 2:
        raise InvalidArgument.of(at[1], "must be a pair (min, max); max is not in it, None leaves a side open")
    target.range.SetInParent()
    for bound, given in zip(("min", "max"), operand, strict=True):
        if given is not None:
            getattr(target.range, bound).CopyFrom(_value(given, at))


def _exists(target: Any, _operator: str, operand: Any, at: tuple[tzinfo | None, str]) -> None:
    if not isinstance(operand, bool):
        raise InvalidArgument.of(at[1], "must be true or false")
    target.exists = operand


_OPERATORS: Final[dict[str, _Operator]] = {
    "eq": _one, "ne": _one, "in": _many, "not_in": _many, "range": _range, "exists": _exists, "contains": _one
}  # fmt: skip


def _value(value: object, at: tuple[tzinfo | None, str]) -> filter_pb2.AttributeValue:
    zone, field = at
    if isinstance(value, bool):
        return filter_pb2.AttributeValue(flag=value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidArgument.of(field, "is too large a number")
        return filter_pb2.AttributeValue(integer=value)
    if isinstance(value, float):
        return filter_pb2.AttributeValue(number=value)
    if isinstance(value, str):
        return filter_pb2.AttributeValue(text=value)
    if isinstance(value, date | datetime):
        return filter_pb2.AttributeValue(time=timestamp(value, zone, field))
    raise InvalidArgument.of(field, "must be text, a number, true or false, or a time")


_SETTERS: Final[dict[str, _Setter]] = {
    "user": _words("users"),
    "owner": _words("owners"),
    "kind": _words("kinds"),
    "tags": _words("tags_all"),
    "tags_any": _words("tags_any"),
    "tags_exact": _tags_exact,
    "origin": _enums("origins", item_pb2.Origin),
    "state": _enums("states", item_pb2.State),
    "trust": _enums("trusts", item_pb2.Trust),
    "confidence": _numbers("confidence"),
    "min_confidence": _min_confidence,
    "importance": _numbers("importance"),
    "time": _times("valid_from"),
    "create_time": _times("create_time"),
    "update_time": _times("update_time"),
    "pinned": _pinned,
    "attributes": _attributes,
    "all_of": _nested("all_of"),
    "any_of": _nested("any_of"),
    "none_of": _nested("none_of"),
}
FILTERS: Final = tuple(_SETTERS)
"""Keys of `filters`. Words: one or several (any of them; `tags`: all of them). Pairs are half-open ranges.

`attributes` maps a key, or a tuple of keys, to a value or to {operator: operand} with eq, ne, in, not_in, range,
exists, contains.
"""
