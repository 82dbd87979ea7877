"""Search tokens as the lexical index sees them: tenant-keyed hashes, cached for the words in use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memoryos_core.sealing import TenantKeys

_CACHED_MAX: Final = 200_000
"""Hashes kept in the process, some 30 MB; all are dropped beyond."""


class TokenHashes:
    """Gives hashes of tokens. Words of one tenant never share a hash with another's but by chance (2^-64)."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, int]] = {}
        self._count = 0

    def of(self, keys: TenantKeys, tokens: Iterable[str]) -> list[int]:
        """Give one hash per token, in order."""
        known = self._known.get(keys.tokens)
        if known is None or self._count > _CACHED_MAX:
            if self._count > _CACHED_MAX:
                self._known.clear()
                self._count = 0
            known = self._known.setdefault(keys.tokens, {})
        wanted = list(tokens)
        hashes = list(map(known.get, wanted))
        if None not in hashes:
            return hashes  # type: ignore[return-value]
        before = len(known)
        for token, number in zip(wanted, hashes, strict=True):
            if number is None:
                known[token] = keys.token_hash(token)
        self._count += len(known) - before
        return [known[token] for token in wanted]
