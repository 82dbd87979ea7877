"""TaskTokens: five-minute EdDSA tokens of issuer memoryos-harness, narrowed from the task's grant."""

from __future__ import annotations

from memoryos_core.tokens import TokenSigner

from memoryos_harness.domain.grants import AUDIENCE, TOKEN_TTL_S, narrowed
from memoryos_harness.ports import Claim


class SignedTaskTokens:
    """See `TaskTokens`."""

    def __init__(self, signer: TokenSigner) -> None:
        self._signer = signer

    def mint(self, claim: Claim) -> str:
        """See `TaskTokens.mint`."""
        identity = narrowed(claim.grant, claim.agent, session_id=claim.session_id, task_id=claim.lease.task_id)
        return self._signer.subject(identity, audience=AUDIENCE, ttl_s=TOKEN_TTL_S)
