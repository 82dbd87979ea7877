"""Stop the tokens of a user, an agent of a user or a task, and let them be made again."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_harness.domain.revocations import Revocation
from memoryos_harness.ports import Request, RevocationStore


async def revoke_access(store: RevocationStore, scope: Scope, subject: str, request: Request) -> Revocation:
    """Give the revocation after which no token of `subject`, nor of who works for it, is made in this tenant.

    Tokens made before live their five minutes at most; a task that runs ends at
    its next look. Raises InvalidField for what is no subject.
    """
    return await store.revoke(scope, subject, request)


async def restore_access(store: RevocationStore, scope: Scope, subject: str, request: Request) -> None:
    """Take a revocation back; what was not revoked stays as it is. Tasks that ended by it stay ended."""
    await store.restore(scope, subject, request)


async def list_revocations(store: RevocationStore, scope: Scope) -> tuple[Revocation, ...]:
    """Give the newest revocations of the scope's tenant, newest first."""
    return await store.list_newest(scope)
