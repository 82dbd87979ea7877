"""Typed ids: a prefix that says what it names, an underscore and a ULID.

A ULID is 48 bits of Unix milliseconds and 80 random bits in Crockford base 32
(26 characters, https://github.com/ulid/spec), so ids sort by time of birth.
"""

from __future__ import annotations

import secrets
import threading
from typing import Final, Protocol

from memoryos_core.clock import Clock, SystemClock

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALLOWED: Final = frozenset(ALPHABET)
_PAIRS: Final = tuple(high + low for high in ALPHABET for low in ALPHABET)
"""What ten bits are: an id in half as many steps."""
_ULID_LENGTH: Final = 26
_RANDOM_BITS: Final = 80
_RANDOM_MAX: Final = (1 << _RANDOM_BITS) - 1

PREFIXES: Final = frozenset(
    {"mem", "ses", "msg", "task", "step", "call", "dec", "rev", "evt", "aud", "key", "tok", "job", "snap", "bind"}
)
"""Every kind of thing that has an id."""


class IdSource(Protocol):
    """Makes ids."""

    def new(self, prefix: str) -> str:
        """Give a fresh id of the kind `prefix`, e.g. "mem"."""


def encode_ulid(milliseconds: int, randomness: int) -> str:
    """Give the 26 characters of a ULID."""
    value = (milliseconds << _RANDOM_BITS) | randomness
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)])


def is_id(text: str, prefix: str) -> bool:
    """Tell whether `text` is a well-formed id of the kind `prefix`."""
    head, _, ulid = text.rpartition("_")
    return head == prefix and len(ulid) == _ULID_LENGTH and ulid[0] <= "7" and _ALLOWED.issuperset(ulid)


class UlidSource:
    """Ids that grow strictly within one process, also inside a millisecond."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last_random = 0

    def new(self, prefix: str) -> str:
        """Give a fresh id."""
        if prefix not in PREFIXES:
            raise ValueError(f"unknown id prefix {prefix!r}")
        with self._lock:
            now_ms = int(self._clock.now().timestamp() * 1000)
            if now_ms <= self._last_ms and self._last_random < _RANDOM_MAX:
                self._last_random += 1
            else:
                self._last_ms = max(now_ms, self._last_ms + (now_ms <= self._last_ms))
                # The top bit stays free so that increments do not overflow.
                self._last_random = secrets.randbits(_RANDOM_BITS - 1)
            return f"{prefix}_{encode_ulid(self._last_ms, self._last_random)}"


class SequenceIds:
    """Ids in a fixed order, for tests that compare answers."""

    def __init__(self) -> None:
        self._next = 0

    def new(self, prefix: str) -> str:
        """Give the next id."""
        if prefix not in PREFIXES:
            raise ValueError(f"unknown id prefix {prefix!r}")
        self._next += 1
        return f"{prefix}_{encode_ulid(0, self._next)}"
