"""Instants as whole microseconds since 1970, exactly: for page tokens and other places that want a number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def micros_of(instant: datetime) -> int:
    """Give the microseconds since 1970."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Give the instant that many microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=micros)
