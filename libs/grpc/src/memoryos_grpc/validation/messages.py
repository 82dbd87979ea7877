"""Compiles the rules of a message type into one closure that walks a request.

Nothing is allocated for a request that is in order: field names and positions
are put together only when something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from memoryos.type.v1 import field_pb2

from memoryos_grpc.validation.values import (
    FLOATS,
    ValueCheck,
    bytes_check,
    enum_check,
    finite_check,
    number_check,
    well_known_check,
)
from memoryos_grpc.validation.violations import VIOLATIONS_MAX, Violation

Checker = Callable[[Any, list[Violation]], None]
"""Adds the violations of a message to the list, with fields named from that message."""

_REQUIRED = "is required"
_TIME_RANGE = "memoryos.type.v1.TimeRange"
_BYTES_TYPES = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})


@cache
def compile_checker(message: Descriptor) -> Checker:
    """Give the checker of a message type, the same for the whole process.

    Raises TypeError for shapes that have no rules (maps, foreign messages), so
    that a server with such a method does not start.
    """
    return _compile(message, {})


def _compile(message: Descriptor, done: dict[str, Checker]) -> Checker:
    known = done.get(message.full_name)
    if known is not None:
        return known
    checks: list[Checker] = []

    def check(value: Any, found: list[Violation]) -> None:
        for each in checks:
            each(value, found)
            if len(found) >= VIOLATIONS_MAX:
                return

    # Registered before its fields are compiled: a message may contain itself.
    done[message.full_name] = check
    checks.extend(c for field in message.fields if (c := _field(field, done)) is not None)
    if message.full_name == _TIME_RANGE:
        checks.append(_check_order)
    return check


def _field(field: FieldDescriptor, done: dict[str, Checker]) -> Checker | None:
    rules = field.GetOptions().Extensions[field_pb2.field]
    if field.is_repeated:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            raise TypeError(f"{field.full_name}: map fields have no rules")
        return _repeated(field, rules, done)
    if field.message_type is not None:
        return _submessage(field, rules, done)
    if field.type in _BYTES_TYPES:
        return _bytes(field, rules)
    return _scalar(field, rules)


def _submessage(field: FieldDescriptor, rules: field_pb2.FieldRules, done: dict[str, Checker]) -> Checker:
    name, required = field.name, rules.required
    assert field.message_type is not None
    well_known = well_known_check(field.message_type)
    inner = None if well_known else _compile(field.message_type, done)

    def check(value: Any, found: list[Violation]) -> None:
        if not value.HasField(name):
            if required:
                found.append(Violation(name, _REQUIRED))
        elif well_known is not None:
            wrong = well_known(getattr(value, name))
            if wrong:
                found.append(Violation(name, wrong))
        elif inner is not None:
            before = len(found)
            inner(getattr(value, name), found)
            if len(found) != before:
                found[before:] = [violation.below(name) for violation in found[before:]]

    return check


def _bytes(field: FieldDescriptor, rules: field_pb2.FieldRules) -> Checker:
    name, required, is_path = field.name, rules.required, rules.format == field_pb2.FORMAT_PATH
    value_check = bytes_check(field, rules)

    def check(value: Any, found: list[Violation]) -> None:
        part = getattr(value, name)
        if not part:
            if required:
                found.append(Violation(name, _REQUIRED))
            return
        wrong = value_check(part)
        if wrong:
            found.append(Violation(name, wrong, is_path))

    return check


def _scalar(field: FieldDescriptor, rules: field_pb2.FieldRules) -> Checker | None:
    name, required, has_presence = field.name, rules.required, field.has_presence
    if field.enum_type is not None:
        value_check: ValueCheck | None = enum_check(field.enum_type, required=required)
    else:
        value_check = number_check(field, rules)
    if value_check is None and not required:
        return None

    def check(value: Any, found: list[Violation]) -> None:
        if has_presence and not value.HasField(name):
            if required:
                found.append(Violation(name, _REQUIRED))
            return
        part = getattr(value, name)
        if required and not has_presence and not part:
            found.append(Violation(name, _REQUIRED))
            return
        wrong = value_check(part) if value_check else None
        if wrong:
            found.append(Violation(name, wrong))

    return check


def _repeated(field: FieldDescriptor, rules: field_pb2.FieldRules, done: dict[str, Checker]) -> Checker:
    name, required = field.name, rules.required
    max_items = rules.max_items or 2**32
    is_path = rules.format == field_pb2.FORMAT_PATH
    only_finite = field.type in FLOATS and not rules.has_range
    surely_finite = finite_check(field) if only_finite else None
    inner: Checker | None = None
    value_check: ValueCheck | None
    if field.message_type is not None:
        value_check = well_known_check(field.message_type)
        inner = None if value_check else _compile(field.message_type, done)
    elif field.enum_type is not None:
        value_check = enum_check(field.enum_type, required=True)
    elif field.type in _BYTES_TYPES:
        value_check = _element_check(field, rules)
    else:
        value_check = number_check(field, rules)

    def check(value: Any, found: list[Violation]) -> None:
        parts = getattr(value, name)
        if not parts:
            if required:
                found.append(Violation(name, _REQUIRED))
            return
        if len(parts) > max_items:
            found.append(Violation(name, f"has more than {max_items} elements"))
            return
        if surely_finite is not None and surely_finite(value):
            return  # one look each at 512 numbers of a vector costs 1 ms
        for index, part in enumerate(parts):
            if inner is not None:
                before = len(found)
                inner(part, found)
                if len(found) != before:
                    found[before:] = [violation.below(f"{name}[{index}]") for violation in found[before:]]
            elif value_check is not None:
                wrong = value_check(part)
                if wrong:
                    found.append(Violation(f"{name}[{index}]", wrong, is_path))
            if len(found) >= VIOLATIONS_MAX:
                return

    return check


def _element_check(field: FieldDescriptor, rules: field_pb2.FieldRules) -> ValueCheck:
    check_value = bytes_check(field, rules)
    return lambda part: check_value(part) if part else "is empty"


def _check_order(value: Any, found: list[Violation]) -> None:
    if value.HasField("start") and value.HasField("end"):
        start, end = value.start, value.end
        if (start.seconds, start.nanos) >= (end.seconds, end.nanos):
            found.append(Violation("start", "must be before end"))
