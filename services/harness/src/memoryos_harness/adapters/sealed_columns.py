"""Sealed columns of schema harness: opened and closed with the key of the row's user."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, TenantKeys, aad, key_id_of, open_sealed, seal
from memoryos_core.token_hashes import TokenHashes
from memoryos_postgres.transaction import Tx

JOURNAL_BYTES_MAX = 4 * 1024 * 1024
"""Largest JSON in the journal; a model reply has a limit below it."""


class SealedColumns:
    """Seals and opens values; each is bound to its tenant, column and row id."""

    def __init__(self, keyring: KeyRing[Tx]) -> None:
        self._keyring = keyring
        self._hashes = TokenHashes()

    async def tenant_keys(self, tx: Tx, scope: Scope) -> TenantKeys:
        """Give the keys of hashes of the scope's tenant."""
        return await self._keyring.tenant_keys(tx, scope.tenant)

    async def word_hashes(self, tx: Tx, scope: Scope, words: Sequence[str]) -> list[int]:
        """Give one hash per word, keyed by the scope's tenant."""
        return self._hashes.of(await self.tenant_keys(tx, scope), words)

    async def seal_text(self, tx: Tx, scope: Scope, column: str, row_id: str, text: str) -> bytes:
        """Give the sealed form of a text."""
        key = await self._keyring.subject_key(tx, scope.tenant, scope.user)
        return seal(key, text.encode(), _place(scope, column, row_id))

    async def open_text(self, tx: Tx, scope: Scope, column: str, row_id: str, sealed: bytes) -> str:
        """Give the text; SealedKeyUnavailable when its key is destroyed."""
        key = await self._keyring.by_id(tx, scope.tenant, key_id_of(sealed))
        return open_sealed(key, sealed, _place(scope, column, row_id)).decode()

    async def seal_json(self, tx: Tx, scope: Scope, column: str, row_id: str, value: JsonValue) -> bytes:
        """Give the sealed form of a JSON value."""
        return await self.seal_text(tx, scope, column, row_id, canonical_json(value).decode())

    async def open_json(self, tx: Tx, scope: Scope, column: str, row_id: str, sealed: bytes) -> JsonValue:
        """Give the JSON value; a sealed value that was tampered with does not open."""
        text = await self.open_text(tx, scope, column, row_id, sealed)
        return parse_json(text, max_bytes=JOURNAL_BYTES_MAX, max_depth=128)


def _place(scope: Scope, column: str, row_id: str) -> bytes:
    return aad(scope.tenant, f"harness.{column}", row_id)
