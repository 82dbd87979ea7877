"""Checks of single values: numbers, enums, strings, bytes and Google's well-known types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from memoryos.type.v1 import field_pb2

from memoryos_grpc.validation.formats import format_check

ValueCheck = Callable[[Any], str | None]
"""Gives None, or what is wrong with a value."""

FLOATS: Final = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})
_SIZES: Final = {FieldDescriptor.TYPE_DOUBLE: 8, FieldDescriptor.TYPE_FLOAT: 4}
MASK_PATHS_MAX: Final = 64
MASK_PATH_BYTES_MAX: Final = 128

# 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z, and ten thousand years: google/protobuf/{timestamp,duration}.proto.
_TIMESTAMP_S_MIN: Final = -62_135_596_800
_TIMESTAMP_S_MAX: Final = 253_402_300_799
_DURATION_S_MAX: Final = 315_576_000_000
_NANOS_MAX: Final = 999_999_999


def number_check(field: FieldDescriptor, rules: field_pb2.FieldRules) -> ValueCheck | None:
    """Give the check of a numeric field, or None when any value will do."""
    low, high = rules.min, rules.max
    if rules.has_range:
        wrong = f"must be from {low:g} to {high:g}"
        # A comparison with NaN is false, so NaN fails it too.
        return lambda value: None if low <= value <= high else wrong
    if field.type in FLOATS:
        return lambda value: None if math.isfinite(value) else "must be a finite number"
    return None


def finite_check(field: FieldDescriptor) -> Callable[[Any], bool]:
    """Give what tells that all numbers of a repeated field of a message are finite; no means: look at each.

    It looks at the first byte of each on the wire, sign and high bits of the exponent: all ones
    are beyond 10^38 (double: 10^307), or no number. Python needs ten times as long for their sum.
    """
    name, size = field.name, _SIZES[field.type]

    def check(value: Any) -> bool:
        alone = type(value)()  # nothing stands before or behind the numbers
        parts = getattr(alone, name)
        parts.MergeFrom(getattr(value, name))
        wire: bytes = alone.SerializeToString()
        first = wire[len(wire) - size * len(parts) + size - 1 :: size]  # the last one: little-endian
        return b"\x7f" not in first and b"\xff" not in first

    return check


def enum_check(enum: EnumDescriptor, *, required: bool) -> ValueCheck:
    """Give the check of an enum field: proto3 lets any number through, we do not."""
    known = frozenset(enum.values_by_number)
    wrong = f"is no value of {enum.name}"

    def check(value: int) -> str | None:
        if value not in known:
            return wrong
        return "is required" if required and value == 0 else None

    return check


def bytes_check(field: FieldDescriptor, rules: field_pb2.FieldRules) -> ValueCheck:
    """Give the check of a string or bytes value that is not empty."""
    is_text = field.type == FieldDescriptor.TYPE_STRING
    max_bytes = rules.max_bytes or 2**32
    too_long = f"has more than {max_bytes} bytes"
    form = format_check(rules)

    def check(value: Any) -> str | None:
        if len(value) > max_bytes:
            return too_long
        if is_text:
            if not value.isascii() and len(value.encode()) > max_bytes:
                return too_long
            if "\0" in value:
                return "has a NUL character"
        return form(value) if form else None

    return check


def _check_timestamp(value: Any) -> str | None:
    if _TIMESTAMP_S_MIN <= value.seconds <= _TIMESTAMP_S_MAX and 0 <= value.nanos <= _NANOS_MAX:
        return None
    return "is no time between the years 1 and 9999"


def _check_duration(value: Any) -> str | None:
    if 0 <= value.seconds <= _DURATION_S_MAX and 0 <= value.nanos <= _NANOS_MAX:
        return None
    return "is no duration from 0 to 10,000 years"


def _check_mask(value: Any) -> str | None:
    if len(value.paths) > MASK_PATHS_MAX:
        return f"has more than {MASK_PATHS_MAX} paths"
    if any(not path or len(path) > MASK_PATH_BYTES_MAX or not path.isascii() for path in value.paths):
        return "has a path that is no field name"
    return None


WELL_KNOWN: Final[dict[str, ValueCheck]] = {
    "google.protobuf.Timestamp": _check_timestamp,
    "google.protobuf.Duration": _check_duration,
    "google.protobuf.FieldMask": _check_mask,
}


def well_known_check(message: Descriptor) -> ValueCheck | None:
    """Give the check of one of Google's types, or None for a message of ours.

    Raises TypeError for a type of Google's that has no check here.
    """
    check = WELL_KNOWN.get(message.full_name)
    if check is None and message.full_name.startswith("google."):
        raise TypeError(f"{message.full_name} in a request has no rules in {__name__}")
    return check
