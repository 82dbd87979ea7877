"""TokenIssuer: EdDSA tokens of issuer memoryos-harness for agents that no task of ours runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.canonical import JsonValue
from memoryos_core.clock import Clock
from memoryos_core.errors import DependencyUnavailable
from memoryos_core.ids import IdSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity, TokenSigner
from memoryos_postgres import Database
from memoryos_postgres.revocations import Revocations, subjects_of

from memoryos_harness.errors import AccessRevoked
from memoryos_harness.ports import IssuedToken

_METHOD: Final = "memoryos.harness.v1.Tokens/ExchangeToken"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedTokens:
    """See `TokenIssuer`. `trusted` is what this service believes; without `key` nothing is issued."""

    key: PrivateKey | None
    trusted: KeySet
    database: Database
    revocations: Revocations
    clock: Clock
    ids: IdSource

    async def issue(
        self, caller: Identity, narrowed: Identity, *, audience: Collection[str], ttl_s: int
    ) -> IssuedToken:
        """See `TokenIssuer.issue`."""
        key = self._own_key()
        scope = Scope.of(caller)
        async with self.database.scoped(scope) as tx:
            if await self.revocations.is_revoked(tx, caller.tenant, subjects_of(narrowed)):
                raise AccessRevoked
            record(tx, _issued(narrowed))
        expire_time = self.clock.now().replace(microsecond=0) + timedelta(seconds=ttl_s)
        token = TokenSigner(key, self.clock, self.ids).subject(narrowed, audience=sorted(audience), ttl_s=ttl_s)
        return IssuedToken(token=token, expire_time=expire_time)

    def keys(self) -> JsonValue:
        """See `TokenIssuer.keys`."""
        key = self._own_key()
        public = {known.kid: known for known in (key.public, *self.trusted.of_issuer(key.issuer, Use.SUBJECT))}
        return {"keys": [dict(public[kid].as_jwk()) for kid in sorted(public)]}

    def _own_key(self) -> PrivateKey:
        if self.key is None:
            raise DependencyUnavailable(metadata={"missing": "identity.task_key_file"})
        return self.key


def _issued(identity: Identity) -> AuditEvent:
    return AuditEvent(
        kind=Kind.TOKEN_ISSUED, actor=Actor.of_identity(identity), service="harness", method=_METHOD,
        target_type="token",
    )  # fmt: skip
