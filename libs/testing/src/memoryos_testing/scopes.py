"""Scopes for tests, built the way services build them: from an identity."""

from collections.abc import Iterable

from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity


def scope_of(
    tenant: str = "acme",
    user: str = "u42",
    *,
    roles: Iterable[str] = ("agent",),
    groups: Iterable[str] = (),
    clearance: int = 0,
    chain: tuple[str, ...] = (),
) -> Scope:
    """The scope of a caller."""
    return Scope.of(
        Identity(
            tenant=tenant,
            user=user,
            roles=frozenset(roles),
            groups=frozenset(groups),
            clearance=clearance,
            chain=chain,
        )
    )
