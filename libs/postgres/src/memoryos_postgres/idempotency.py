"""The first answer to a request_id, kept in the transaction of the write it answers (DESIGN §2).

    async with db.scoped(scope) as tx:
        stored = await idempotency.begin(tx, scope, "memoryos.memoryfs.v1.MemoryFS/Write", request_id, body)
        if stored is not None:
            return Response.FromString(stored)
        …
        await idempotency.finish(tx, scope, rpc, request_id, response.SerializeToString())

`body` is the request in a deterministic form without the request_id.
"""

import hashlib
from typing import Final

from memoryos_core.errors import RequestIdReused
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, TenantKeys, aad, key_id_of, mac, open_sealed, seal

from memoryos_postgres.transaction import Tx

KEPT_DAYS: Final = 7
_SWEEP_EVERY: Final = 500
_SWEEP_ROWS_MAX: Final = 1000

_BEGIN = (
    "INSERT INTO core.idempotency (tenant, principal, rpc, request_id, body_hmac) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (tenant, principal, rpc, request_id) DO NOTHING"
)
_CLAIM = (
    "INSERT INTO core.idempotency (tenant, principal, rpc, request_id, body_hmac, response)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)
CLAIMED: Final = "idempotency_pkey"
"""Constraint that a second `claim` of a request breaks."""
_READ = (
    "SELECT body_hmac, response FROM core.idempotency"
    " WHERE tenant = %s AND principal = %s AND rpc = %s AND request_id = %s"
)
_FINISH = (
    "UPDATE core.idempotency SET response = %s WHERE tenant = %s AND principal = %s AND rpc = %s AND request_id = %s"
)
_SWEEP = (
    "DELETE FROM core.idempotency WHERE tenant = %s AND ctid = ANY (ARRAY("
    " SELECT ctid FROM core.idempotency WHERE tenant = %s AND create_time < now() - make_interval(days => %s)"
    " LIMIT %s))"
)


class Idempotency:
    """Idempotency rows of one process, sealed by the caller's own data key."""

    def __init__(self, keyring: KeyRing[Tx]) -> None:
        self._keyring = keyring
        self._begun = 0

    async def begin(self, tx: Tx, scope: Scope, rpc: str, request_id: str, body: bytes) -> bytes | None:
        """The first answer if this request was answered before, else None: then do it and `finish`.

        A second caller with the same id waits until the first has committed or
        failed. RequestIdReused when the body differs from the first one's.
        """
        keys = await self._keyring.tenant_keys(tx, scope.tenant)
        body_hmac = _body_hmac(keys, body)
        key = (scope.tenant, scope.actor, rpc, request_id)
        if await tx.execute(_BEGIN, (*key, body_hmac)):
            self._sweep(tx, scope)
            return None
        row = await tx.fetch_one(_READ, key)
        if row is None:  # swept in this instant, after more than 7 days
            return await self.begin(tx, scope, rpc, request_id, body)
        if row["body_hmac"] != body_hmac:
            raise RequestIdReused
        sealed: bytes = row["response"]
        data_key = await self._keyring.by_id(tx, scope.tenant, key_id_of(sealed))
        return open_sealed(data_key, sealed, answer_place(key))

    async def claim(self, tx: Tx, scope: Scope, rpc: str, request_id: str, body: bytes, response: bytes) -> None:
        """Keep the answer with the commit where it is known beforehand: saves `begin` its round trip.

        If the request was answered before, the commit fails with UniqueViolation
        of `CLAIMED` and nothing is kept; ask `begin` in another transaction then.
        """
        keys = await self._keyring.tenant_keys(tx, scope.tenant)
        key = (scope.tenant, scope.actor, rpc, request_id)
        data_key = await self._keyring.subject_key(tx, scope.tenant, scope.user)
        tx.defer(_CLAIM, (*key, _body_hmac(keys, body), seal(data_key, response, answer_place(key))))
        self._sweep(tx, scope)

    def _sweep(self, tx: Tx, scope: Scope) -> None:
        """Remove rows past their time, now and then."""
        self._begun += 1
        if self._begun % _SWEEP_EVERY == 0:
            tx.defer(_SWEEP, (scope.tenant, scope.tenant, KEPT_DAYS, _SWEEP_ROWS_MAX))

    async def finish(
        self, tx: Tx, scope: Scope, rpc: str, request_id: str, response: bytes, *, subject: str | None = None
    ) -> None:
        """Keep the answer, sealed for the caller's user or for `subject`; it is written together with the commit."""
        key = (scope.tenant, scope.actor, rpc, request_id)
        data_key = await self._keyring.subject_key(tx, scope.tenant, scope.user if subject is None else subject)
        tx.defer(_FINISH, (seal(data_key, response, answer_place(key)), *key))


def _body_hmac(keys: TenantKeys, body: bytes) -> str:
    """Give what tells bodies apart and says nothing of them; BLAKE2b first, for large ones."""
    return mac(keys.digests, hashlib.blake2b(body, digest_size=32).hexdigest())


def answer_place(key: tuple[str, str, str, str]) -> bytes:
    return aad(key[0], "core.idempotency.response", *key[1:])
