"""Sealed inputs of decisions, opened for those who may see them."""

from __future__ import annotations

import json
from typing import Any

from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, key_id_of, open_sealed
from memoryos_postgres import Tx, queries

from memoryos_policy.adapters.decision_rows import input_place

_QUERIES = queries.load("memoryos_policy", "decision_log.sql")


async def input_of(keyring: KeyRing[Tx], tx: Tx, scope: Scope, decision_id: str) -> dict[str, Any] | None:
    """Give the input that was decided on, as the rules saw it; None once its user was erased."""
    params = {"tenant": scope.tenant, "decision_ids": [decision_id]}
    row = await tx.fetch_one(_QUERIES["decision_inputs"], params)
    if row is None:
        return None
    return opened_input(await opened(keyring, tx, scope, row["input"], input_place(scope.tenant, decision_id)))


def opened_input(plain: bytes) -> dict[str, Any] | None:
    """Give the document of our own canonical text: it was parsed strictly before it was sealed."""
    document: dict[str, Any] | None = json.loads(plain) if plain else None
    return document


async def opened(keyring: KeyRing[Tx], tx: Tx, scope: Scope, sealed: bytes, place: bytes) -> bytes:
    """Give what was sealed; empty once its data subject was erased."""
    try:
        key = await keyring.by_id(tx, scope.tenant, key_id_of(sealed))
    except SealedKeyUnavailable:
        return b""
    return open_sealed(key, sealed, place)
