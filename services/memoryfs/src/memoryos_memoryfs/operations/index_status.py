"""GetIndexStatus: which index answers, what waits, what was given up."""

from __future__ import annotations

from dataclasses import dataclass

from memoryos_core.scope import Scope

from memoryos_memoryfs.ports.index import Backend, Backends, Backlog, IndexParts

_WHOLE: str = "operator"
"""The role that sees what waits of all tenants; others see their tenant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """The state of the index."""

    backends: Backends
    backlog: Backlog
    degraded: bool
    """Searches that the copy should answer are answered by PostgreSQL."""
    model_id: str
    dimensions: int


async def index_status(parts: IndexParts, scope: Scope) -> IndexStatus:
    """Give the state of the installation's index; what waits is that of the caller's tenant, of all for an operator."""
    backends = await parts.state.get()
    backlog = await parts.outbox.backlog(None if _WHOLE in scope.roles else scope.tenant)
    copied = backends.serving is Backend.QDRANT
    return IndexStatus(
        backends=backends,
        backlog=backlog,
        degraded=copied and (parts.copy is None or not parts.answers()),
        model_id=parts.model_id,
        dimensions=parts.models.dimensions[parts.model_id],
    )
