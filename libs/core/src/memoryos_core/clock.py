"""Time as a parameter: services take a Clock, tests advance one by hand.

Leases and order use the database's clock, never this one (DESIGN §2).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Give the present instant in UTC, whole microseconds."""

    def monotonic(self) -> float:
        """Give seconds from an arbitrary start; never goes back."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Give the present instant in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Give seconds since an arbitrary start."""
        return time.monotonic()


class ManualClock:
    """A clock that stands still until a test advances it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Give the instant it stands at."""
        return self._now

    def monotonic(self) -> float:
        """Give the seconds it was advanced by."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`, which may not be negative."""
        if seconds < 0:
            raise ValueError("a clock does not go back")
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
