"""PageKeys from the tenant's derived keys."""

from __future__ import annotations

from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing
from memoryos_postgres import Database, Tx


class TenantPageKeys:
    """See `PageKeys`."""

    def __init__(self, database: Database, keyring: KeyRing[Tx]) -> None:
        self._database = database
        self._keyring = keyring

    async def of(self, scope: Scope) -> PageTokens:
        """See `PageKeys.of`."""
        async with self._database.scoped(scope) as tx:
            return PageTokens((await self._keyring.tenant_keys(tx, scope.tenant)).pages)
