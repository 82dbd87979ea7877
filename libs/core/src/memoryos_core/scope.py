"""Scope: who asks, as a mandatory argument of every storage call (I1).

It has no default and is built from a verified identity only, so a call without
tenant and reader cannot be written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memoryos_core.paths import MemoryPath
from memoryos_core.tokens import Identity

_PERSON: Final = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Tenant, reader and ceilings of one call.

    `read_paths`/`write_paths` are ceilings of the token: None is no ceiling, an
    empty tuple lets nothing through.
    """

    tenant: str
    user: str
    principals: tuple[str, ...]
    clearance: int
    roles: frozenset[str]
    chain: tuple[str, ...]
    session_id: str
    task_id: str
    read_paths: tuple[MemoryPath, ...] | None
    write_paths: tuple[MemoryPath, ...] | None

    @classmethod
    def of(cls, identity: Identity) -> Scope:
        """Give the scope of a verified identity."""
        return cls(
            tenant=identity.tenant,
            user=identity.user,
            principals=identity.principals,
            clearance=identity.clearance,
            roles=identity.roles,
            chain=identity.chain,
            session_id=identity.session_id,
            task_id=identity.task_id,
            read_paths=_ceiling(identity.read_paths),
            write_paths=_ceiling(identity.write_paths),
        )

    def may_read(self, path: MemoryPath) -> bool:
        """Tell whether the token's ceiling lets reads of `path` through."""
        return path.tenant == self.tenant and _within(self.read_paths, path)

    def may_write(self, path: MemoryPath) -> bool:
        """Tell whether the token's ceiling lets writes to `path` through."""
        return path.tenant == self.tenant and _within(self.write_paths, path)

    @property
    def alone(self) -> bool:
        """Tell whether a person calls by itself: no agent, session or task that could have told it what to say."""
        return _PERSON in self.roles and not (self.chain or self.session_id or self.task_id)

    @property
    def actor(self) -> str:
        """The principal that acts: the innermost agent, else the user."""
        return f"agent:{self.user}/{self.chain[-1]}" if self.chain else f"user:{self.user}"


def _ceiling(paths: tuple[str, ...] | None) -> tuple[MemoryPath, ...] | None:
    return None if paths is None else tuple(MemoryPath.parse(path, field="token paths") for path in paths)


def _within(ceiling: tuple[MemoryPath, ...] | None, path: MemoryPath) -> bool:
    return ceiling is None or any(allowed.contains(path) for allowed in ceiling)
