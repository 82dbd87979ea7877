"""How long to wait before a crashed child is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubling pauses; a run of `stable_s` counts as recovered and starts over."""

    first_s: float = 0.2
    max_s: float = 30.0
    stable_s: float = 30.0
    failures: int = 0

    def after_run(self, ran_s: float) -> float:
        """Give the pause after a run of `ran_s` seconds that ended by itself."""
        if ran_s >= self.stable_s:
            self.failures = 0
        self.failures += 1
        return min(self.max_s, self.first_s * 2.0 ** (self.failures - 1))
