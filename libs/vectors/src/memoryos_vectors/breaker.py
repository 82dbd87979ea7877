"""A circuit breaker: a dependency that is dead costs its time-out a few times, not once a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

FAILURES_MAX: Final = 3
_PAUSE_MAX_S: Final = 30.0


class Breaker:
    """Opens after failures in a row; then lets one call through after each pause, which doubles while it fails."""

    def __init__(
        self,
        *,
        failures_max: int = FAILURES_MAX,
        pause_s: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures_max = failures_max
        self._first_pause_s = self._pause_s = pause_s
        self._monotonic = monotonic
        self._failures = 0
        self._next_try = 0.0

    @property
    def closed(self) -> bool:
        """Tell whether calls go through."""
        return self._failures < self._failures_max

    def allow(self) -> bool:
        """Tell whether this call may go through; of those that meet an open breaker, one a pause."""
        if self.closed:
            return True
        now = self._monotonic()
        if now < self._next_try:
            return False
        self._next_try = now + self._pause_s
        return True

    def succeeded(self) -> None:
        """Note an answer: closed again."""
        self._failures = 0
        self._pause_s = self._first_pause_s

    def failed(self) -> None:
        """Note that no answer came in time."""
        if not self.closed:
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
        self._failures += 1
        if not self.closed:
            self._next_try = self._monotonic() + self._pause_s
