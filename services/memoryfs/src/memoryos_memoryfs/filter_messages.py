"""Filters on the wire to filters of the domain. What cannot be answered is FilterInvalid, never a wider filter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from memoryos.memoryfs.v1 import filter_pb2
from memoryos.type.v1 import common_pb2
from memoryos_core.errors import FieldViolation

from memoryos_memoryfs.domain import filters as f
from memoryos_memoryfs.errors import FilterInvalid
from memoryos_memoryfs.messages import instant


@dataclass(slots=True)
class _Count:
    """Conditions so far in one filter."""

    conditions: int = field(default=0)

    def add(self, count: int, name: str) -> None:
        self.conditions += count
        if self.conditions > f.CONDITIONS_MAX:
            raise invalid(name, f"more than {f.CONDITIONS_MAX} conditions in all")


def invalid(name: str, description: str) -> FilterInvalid:
    """Give the error of one field of a filter."""
    return FilterInvalid(f"{name}: {description}", violations=(FieldViolation(name, description),))


def _check_known(message: Message, name: str) -> None:
    """Raise FilterInvalid for fields that this service does not know: a later client's condition is not dropped."""
    if len(UnknownFieldSet(message)):
        raise invalid(name, "has a field that this service does not know")


def filter_of(message: filter_pb2.Filter, name: str = "filter") -> f.Filter:
    """Give the filter of a message; `name` is its field in the request. An empty one is NO_FILTER.

    Raises FilterInvalid naming the field: deeper than 8 filters, more than 64
    conditions (a filter without any counts as one), an unknown kind, a
    condition without operator or value, a range without bounds or of two
    kinds, a NUL, a number that is none.
    """
    if not message.ListFields():
        _check_known(message, name)
        return f.NO_FILTER
    return _filter(message, name, 1, _Count())


def _filter(message: filter_pb2.Filter, name: str, depth: int, count: _Count) -> f.Filter:
    _check_known(message, name)
    if depth > f.DEPTH_MAX:
        raise invalid(name, f"deeper than {f.DEPTH_MAX} filters")
    own = [
        *_tags(message, name),
        *_labels(message, name),
        *_numbers(message, name),
        *_times(message, name),
        *(_attribute(one, f"{name}.attributes[{n}]") for n, one in enumerate(message.attributes)),
    ]
    nested = {part: getattr(message, part) for part in ("all_of", "any_of", "none_of")}
    count.add(len(own) or (0 if any(nested.values()) else 1), name)

    def inner(part: str) -> tuple[f.Filter, ...]:
        return tuple(_filter(one, f"{name}.{part}[{n}]", depth + 1, count) for n, one in enumerate(nested[part]))

    own += inner("all_of")
    if message.any_of:
        own.append(f.AnyOf(inner("any_of")))
    if message.none_of:
        own.append(f.NoneOf(inner("none_of")))
    return own[0] if len(own) == 1 else f.AllOf(tuple(own))


def _tags(message: filter_pb2.Filter, name: str) -> Iterable[f.Filter]:
    if message.tags_all:
        yield f.Tagged(f.TagRule.ALL, tuple(message.tags_all))
    if message.tags_any:
        yield f.Tagged(f.TagRule.ANY, tuple(message.tags_any))
    if message.HasField("tags_exact"):
        _check_known(message.tags_exact, f"{name}.tags_exact")
        yield f.Tagged(f.TagRule.EXACT, tuple(message.tags_exact.tags))


def _labels(message: filter_pb2.Filter, name: str) -> Iterable[f.Filter]:
    unknown = set(message.kinds) - f.KINDS
    if unknown:
        raise invalid(f"{name}.kinds", "names a kind that is not working, episodic or semantic")
    for label, texts in ((f.Label.USER, message.users), (f.Label.OWNER, message.owners), (f.Label.KIND, message.kinds)):
        if texts:
            yield f.OneOf(label, tuple(texts))
    numbers: tuple[tuple[f.Label, Sequence[int]], ...] = (
        (f.Label.ORIGIN, message.origins),
        (f.Label.STATE, message.states),
        (f.Label.TRUST, message.trusts),
    )
    for label, values in numbers:
        if values:
            yield f.OneOf(label, tuple(values))
    if message.HasField("pinned"):
        yield f.Pinned(message.pinned)


def _numbers(message: filter_pb2.Filter, name: str) -> Iterable[f.Filter]:
    if message.HasField("min_confidence"):
        yield f.NumberIn(quantity=f.Quantity.CONFIDENCE, min=message.min_confidence)
    for quantity in f.Quantity:
        if message.HasField(quantity.value):
            asked: filter_pb2.NumberRange = getattr(message, quantity)
            _check_known(asked, f"{name}.{quantity}")
            low = _finite(asked.min, f"{name}.{quantity}.min") if asked.HasField("min") else None
            high = _finite(asked.max, f"{name}.{quantity}.max") if asked.HasField("max") else None
            yield f.NumberIn(quantity=quantity, min=low, max=high, max_inclusive=asked.max_inclusive)


def _times(message: filter_pb2.Filter, name: str) -> Iterable[f.Filter]:
    for moment in f.Moment:
        if message.HasField(moment.value):
            asked: common_pb2.TimeRange = getattr(message, moment)
            _check_known(asked, f"{name}.{moment}")
            yield f.TimeIn(
                moment=moment,
                start=instant(asked.start, f"{name}.{moment}.start") if asked.HasField("start") else None,
                end=instant(asked.end, f"{name}.{moment}.end") if asked.HasField("end") else None,
            )


def _attribute(message: filter_pb2.AttributeCondition, name: str) -> f.Filter:
    _check_known(message, name)
    if any("\0" in key for key in message.path):
        raise invalid(f"{name}.path", "no attribute with a NUL can be asked for")
    if not 1 <= len(message.path) <= f.DEPTH_MAX:
        raise invalid(f"{name}.path", f"1 to {f.DEPTH_MAX} keys are needed")
    return f.Attribute(tuple(message.path), _test(message, name))


def _test(message: filter_pb2.AttributeCondition, name: str) -> f.Test:
    operator = message.WhichOneof("operator")
    field_name = f"{name}.{operator}"
    match operator:
        case "eq":
            return f.Among((_value(message.eq, field_name),))
        case "ne":
            return f.NotAmong((_value(message.ne, field_name),))
        case "in":
            return f.Among(_values(getattr(message, "in"), field_name))
        case "not_in":
            return f.NotAmong(_values(message.not_in, field_name))
        case "range":
            return _between(message.range, field_name)
        case "exists":
            return f.Exists(message.exists)
        case "contains":
            return f.Contains(_value(message.contains, field_name))
    raise invalid(name, "an operator is needed that this service knows")


def _values(message: filter_pb2.AttributeValues, name: str) -> tuple[f.Value, ...]:
    _check_known(message, name)
    return tuple(_value(one, f"{name}.values[{n}]") for n, one in enumerate(message.values))


def _between(message: filter_pb2.AttributeRange, name: str) -> f.Between:
    _check_known(message, name)
    low = _value(message.min, f"{name}.min") if message.HasField("min") else None
    high = _value(message.max, f"{name}.max") if message.HasField("max") else None
    bounds = [bound.kind for bound in (low, high) if bound is not None]
    if not bounds:
        raise invalid(name, "one bound is needed")
    if len(set(bounds)) > 1 or f.ValueKind.FLAG in bounds:
        raise invalid(name, "the bounds are two texts, two numbers or two times")
    return f.Between(low, high)


def _value(message: filter_pb2.AttributeValue, name: str) -> f.Value:
    _check_known(message, name)
    match message.WhichOneof("value"):
        case "text":
            if "\0" in message.text:
                raise invalid(name, "no text with a NUL can be asked for")
            return f.Value(f.ValueKind.TEXT, message.text)
        case "integer":
            return f.Value(f.ValueKind.NUMBER, Decimal(message.integer))
        case "number":
            return f.Value(f.ValueKind.NUMBER, f.decimal_of(_finite(message.number, name)))
        case "flag":
            return f.Value(f.ValueKind.FLAG, message.flag)
        case "time":
            return f.Value(f.ValueKind.TIME, instant(message.time, name))
    raise invalid(name, "a value is needed")


def _finite(number: float, name: str) -> float:
    if not math.isfinite(number):
        raise invalid(name, "is no number")
    return number
