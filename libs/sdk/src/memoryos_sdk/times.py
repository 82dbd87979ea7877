"""Times as callers write them → instants.

A bare date means its first instant in the caller's zone. A date-time must say
its offset: a naive one is refused, because its instant depends on the reader.
Ranges are half-open, so ("2025-07-01", "2025-08-01") is July.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, tzinfo
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.type.v1 import common_pb2

from memoryos_sdk.errors import InvalidArgument

When = str | date | datetime
"""A date, a date-time with offset, or either in ISO 8601."""

Range = tuple[When | None, When | None]
"""Start (in it) and end (not in it); None leaves that side open."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def instant(value: When, zone: tzinfo | None, field: str) -> datetime:
    """Give the UTC instant that `value` names; `zone` None is the machine's own.

    Raises InvalidArgument naming `field` for a naive date-time or another type.
    """
    parsed = _parse(value, field) if isinstance(value, str) else value
    if isinstance(parsed, datetime):
        if parsed.tzinfo is None or parsed.utcoffset() is None:
            raise InvalidArgument.of(field, "a date-time needs its offset, e.g. 2025-07-01T09:00:00+08:00")
        return parsed.astimezone(UTC)
    if isinstance(parsed, date):
        # In a gap at midnight fold=0 uses the offset before it, which names the
        # very instant of the change: the first of that date.
        midnight = datetime(parsed.year, parsed.month, parsed.day, tzinfo=zone)
        try:
            return midnight.astimezone(UTC)
        except (OverflowError, OSError, ValueError):
            raise InvalidArgument.of(field, "the date is out of range") from None
    raise InvalidArgument.of(field, "must be a date, a date-time with offset, or either as ISO 8601 text")


def timestamp(value: When, zone: tzinfo | None, field: str) -> Timestamp:
    """Give the same instant as a protobuf Timestamp, in whole microseconds."""
    stamp = Timestamp()
    try:
        stamp.FromDatetime(instant(value, zone, field))
    except ValueError:
        raise InvalidArgument.of(field, "the time is out of range") from None
    return stamp


def time_range(value: object, zone: tzinfo | None, field: str) -> common_pb2.TimeRange:
    """Give a half-open range from a pair (start, end), either of which may be None."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidArgument.of(field, "must be a pair (start, end); end is not in it, None leaves a side open")
    start, end = value
    found = common_pb2.TimeRange()
    if start is not None:
        found.start.CopyFrom(timestamp(start, zone, field))
    if end is not None:
        found.end.CopyFrom(timestamp(end, zone, field))
    return found


def moment(message: object, field: str) -> datetime | None:
    """Give the UTC time of a Timestamp field, or None when it is absent."""
    if not message.HasField(field):  # type: ignore[attr-defined]
        return None
    found: datetime = getattr(message, field).ToDatetime(tzinfo=UTC)
    return found


def _parse(text: str, field: str) -> date | datetime:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument.of(field, "is no ISO 8601 date or date-time") from None
