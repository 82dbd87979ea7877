"""TaskTokens: five-minute EdDSA tokens of issuer memoryos-harness, of the last link of a task's grant."""

from __future__ import annotations

from memoryos_core.tokens import Identity, TokenSigner
from memoryos_postgres import Database
from memoryos_postgres.revocations import Revocations, subjects_of

from memoryos_harness.adapters.task_rows import owner_scope
from memoryos_harness.domain.grants import TOKEN_TTL_S, identity_of_task
from memoryos_harness.errors import AccessRevoked
from memoryos_harness.ports import Claim


class SignedTaskTokens:
    """See `TaskTokens`. Nothing is kept from one check to the next."""

    def __init__(self, signer: TokenSigner, database: Database, revocations: Revocations) -> None:
        self._signer = signer
        self._database = database
        self._revocations = revocations

    async def mint(self, claim: Claim) -> str:
        """See `TaskTokens.mint`."""
        identity = await self._checked(claim)
        return self._signer.subject(identity, audience=sorted(claim.grant[-1].audience), ttl_s=TOKEN_TTL_S)

    async def check(self, claim: Claim) -> None:
        """See `TaskTokens.check`."""
        await self._checked(claim)

    async def _checked(self, claim: Claim) -> Identity:
        lease = claim.lease
        identity = identity_of_task(
            claim.grant, tenant=lease.tenant, user=lease.user, session_id=claim.session_id, task_id=lease.task_id
        )
        subjects = subjects_of(identity, tasks=[link.identity.task_id for link in claim.grant])
        async with self._database.scoped(owner_scope(lease.tenant, lease.user)) as tx:
            if await self._revocations.is_revoked(tx, lease.tenant, subjects):
                raise AccessRevoked
        return identity
