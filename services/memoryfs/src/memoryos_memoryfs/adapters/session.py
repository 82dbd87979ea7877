"""What the adapters of one transaction share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.scope import Scope
from memoryos_core.sealing import TenantKeys
from memoryos_core.token_hashes import TokenHashes
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.jobs import Jobs
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_postgres.transaction import Tx
from memoryos_vectors.adapters.guarded import GuardedIndex
from memoryos_vectors.adapters.pgvector import PgVectorIndex
from memoryos_vectors.adapters.pgvector_routes import AnnRoutes
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import VectorIndex

from memoryos_memoryfs.adapters.names import Names
from memoryos_memoryfs.domain.settings import DEFAULTS, PathSettings

UPKEEP: Final = "memoryos.upkeep"
"""Setting of a transaction that reaches every row of its tenant (core.upkeep)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReads:
    """The copy of the dense index on Qdrant, as searches use it."""

    index: GuardedIndex
    pending_max: int
    """Changes of a tenant that may wait; above it PostgreSQL answers alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What lives as long as the process."""

    keyring: PostgresKeyRing
    idempotency: Idempotency
    names: Names
    hashes: TokenHashes
    models: IndexedModels
    model_id: str
    ann: AnnRoutes
    clock: Clock
    jobs: Jobs
    copy: CopyReads | None = None
    defaults: PathSettings = DEFAULTS
    """What holds where no path states anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One transaction of one caller."""

    shared: Shared
    tx: Tx
    scope: Scope
    upkeep: bool = False
    """The transaction is one of `Database.upkeep`: it reaches every row of the tenant."""

    @property
    def reaches_all(self) -> bool:
        """Tell whether the next statement reaches every row of the tenant."""
        return self.upkeep or bool(self.tx.local.get(UPKEEP))

    @property
    def tenant(self) -> str:
        """Tenant of the caller."""
        return self.scope.tenant

    async def keys(self) -> TenantKeys:
        """Give the tenant's derived keys."""
        return await self.shared.keyring.tenant_keys(self.tx, self.tenant)

    def vectors(self) -> VectorIndex:
        """Give the dense index as this transaction sees it."""
        return PgVectorIndex(self.tx, self.shared.models, self.shared.ann)
