"""A circuit breaker: an endpoint that did not answer is left alone for a while. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAILURES_MAX: Final = 3
OPEN_S: Final = 5.0
OPEN_S_MAX: Final = 60.0


@dataclass(slots=True)
class Circuit:
    """Opens after three failures in a row, for five seconds, twice as long each time, at most a minute.

    When that time is over one caller tries; the others wait for what comes of
    it. Times are of one monotonic clock, in seconds.
    """

    failures: int = 0
    opened_until: float = 0.0
    probing: bool = False

    def is_open(self, now: float) -> bool:
        """Tell whether the endpoint is left alone now."""
        return self.failures >= FAILURES_MAX and (now < self.opened_until or self.probing)

    def begin(self) -> None:
        """Note that a call is made."""
        self.probing = self.failures >= FAILURES_MAX

    def answered(self) -> None:
        """Note that it answered, whatever it said."""
        self.failures, self.probing = 0, False

    def failed(self, now: float) -> None:
        """Note that it did not answer."""
        self.failures += 1
        self.probing = False
        if self.failures >= FAILURES_MAX:
            wait_s = OPEN_S * 2.0 ** min(self.failures - FAILURES_MAX, 16)
            self.opened_until = now + min(wait_s, OPEN_S_MAX)

    def left(self) -> None:
        """Note that nobody waited for the answer."""
        self.probing = False
