"""Tokens that were verified a moment ago, so that Ed25519 is not paid on every call."""

from __future__ import annotations

import base64
import json
from typing import Final, Generic, TypeVar

from memoryos_core.clock import Clock
from memoryos_core.tokens import TokenVerifier

from memoryos_grpc.caller import Caller

ENTRIES_MAX: Final = 4096
"""Most tokens kept, of each kind; the oldest goes first."""
KEPT_S_MAX: Final = 60.0
"""Longest that a verification is believed, so that a key taken from the key set stops working."""

K = TypeVar("K")
V = TypeVar("V")


class _Kept(Generic[K, V]):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[K, tuple[V, float]] = {}

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock.now().timestamp() >= entry[1]:
            del self._entries[key]
            return None
        return entry[0]

    def put(self, key: K, value: V, token: str) -> None:
        while len(self._entries) >= ENTRIES_MAX:
            del self._entries[next(iter(self._entries))]
        until = min(_expiry(token), self._clock.now().timestamp() + KEPT_S_MAX)
        self._entries[key] = (value, until)


class VerifiedTokens:
    """Asks the verifier once per token and minute. Refusals are not kept."""

    def __init__(self, verifier: TokenVerifier, clock: Clock) -> None:
        self._verifier = verifier
        self._callers: _Kept[tuple[str, str | None], Caller] = _Kept(clock)
        self._services: _Kept[str, str] = _Kept(clock)

    def caller(self, subject_token: str, service: str | None) -> Caller:
        """Give the caller whom a subject token names; raises what the verifier raises."""
        found = self._callers.get((subject_token, service))
        if found is None:
            identity = self._verifier.subject(subject_token)
            found = Caller(identity=identity, service=service, subject_token=subject_token)
            self._callers.put((subject_token, service), found, subject_token)
        return found

    def service(self, token: str) -> str:
        """Give the service whom a service token names; raises what the verifier raises."""
        found = self._services.get(token)
        if found is None:
            found = self._verifier.service(token)
            self._services.put(token, found, token)
        return found


def _expiry(verified_token: str) -> float:
    payload = verified_token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return float(claims["exp"])
