"""Service tokens, minted once per callee and most of their life."""

from __future__ import annotations

from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.tokens import SERVICE_TTL_S_MAX, TokenSigner

RENEW_AFTER_S: Final = SERVICE_TTL_S_MAX * 2 / 3
"""A token is renewed with a third of its life left, so that it never expires on its way."""


class ServiceTokens:
    """Gives the own service token for each callee."""

    def __init__(self, signer: TokenSigner, clock: Clock) -> None:
        self._signer = signer
        self._clock = clock
        self._minted: dict[str, tuple[str, float]] = {}

    def token(self, audience: str) -> str:
        """Give a token for calls to the service `audience`."""
        now = self._clock.monotonic()
        minted = self._minted.get(audience)
        if minted is None or now >= minted[1]:
            minted = (self._signer.service(audience), now + RENEW_AFTER_S)
            self._minted[audience] = minted
        return minted[0]
