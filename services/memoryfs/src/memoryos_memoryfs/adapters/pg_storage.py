"""Storage on PostgreSQL."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_postgres import Database
from memoryos_postgres.errors import ConstraintViolation
from memoryos_postgres.idempotency import CLAIMED

from memoryos_memoryfs.adapters.pg_bindings import PgBindings
from memoryos_memoryfs.adapters.pg_claims import PgClaims
from memoryos_memoryfs.adapters.pg_erasure import PgFreezer
from memoryos_memoryfs.adapters.pg_history import PgHistory
from memoryos_memoryfs.adapters.pg_index_outbox import TxBackends
from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.pg_jobs import PgJobs
from memoryos_memoryfs.adapters.pg_journal import PgJournal
from memoryos_memoryfs.adapters.pg_own_items import PgOwnItems
from memoryos_memoryfs.adapters.pg_past import PgPastRows
from memoryos_memoryfs.adapters.pg_places import PgPlaces
from memoryos_memoryfs.adapters.pg_recall import PgRecall
from memoryos_memoryfs.adapters.pg_scans import PgScans
from memoryos_memoryfs.adapters.pg_settings import PgSettings
from memoryos_memoryfs.adapters.pg_snapshots import PgSnapshots
from memoryos_memoryfs.adapters.seen_facts import PgSeen
from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.domain.place_keys import path_key
from memoryos_memoryfs.domain.settings import Holding
from memoryos_memoryfs.errors import QuotaExceeded
from memoryos_memoryfs.ports.storage import (
    IdTaken,
    RequestAnswered,
    SettingsChanged,
    Work,
)

_IDS: Final = frozenset({"items_pkey", "item_revisions_pkey"})
_QUOTAS: Final = {"quota_items_max": "items_max", "quota_bytes_max": "bytes_max"}
"""Constraints that the counters of quotas break (migration 0009)."""
_SETTINGS: Final = "settings_version"
"""What a commit breaks that rests on earlier settings."""
_HOLDINGS_MAX: Final = 20_000
"""Paths whose settings a process knows, some 10 MB."""


def work_of(session: Session) -> Work:
    """Give the ports of one transaction."""
    items = PgItems(session)
    return Work(
        items=items,
        index=PgRecall(session),
        journal=PgJournal(session),
        seen=PgSeen(session),
        claims=PgClaims(session),
        own=PgOwnItems(session),
        settings=PgSettings(session),
        places=PgPlaces(session, items),
        bindings=PgBindings(session),
        jobs=PgJobs(session, session.shared.jobs),
        erasing=PgFreezer(session),
        history=PgHistory(session, items),
        snapshots=PgSnapshots(session),
        derivations=items.derivations,
        backends=TxBackends(session.tx),
        past=PgPastRows(session, items),
        scans=PgScans(session, items),
    )


class PgStorage:
    """Transactions of memoryfs."""

    def __init__(self, database: Database, shared: Shared) -> None:
        self._database = database
        self._shared = shared
        self._holdings: OrderedDict[tuple[str, MemoryPath], Holding] = OrderedDict()

    async def prepare(self, scope: Scope, path: MemoryPath, readers: Sequence[str], subjects: Sequence[str]) -> None:
        """See `Storage.prepare`; without anything new it does not ask the database."""
        shared, tenant = self._shared, scope.tenant
        names = (access.owner_of(scope), *readers)
        keyed = (scope.user, *subjects)
        place = str(path)
        if shared.names.known(tenant, names, place, keyed):
            return
        async with self._database.scoped(scope) as tx:
            keys = await shared.keyring.tenant_keys(tx, tenant)
            await shared.keyring.subject_keys(tx, tenant, keyed)
            shared.names.keyed(tx, tenant, keyed)
            await shared.names.intern(tx, tenant, names, path_key(keys.tokens, path), place)

    async def page_secret(self, scope: Scope) -> bytes:
        """See `Storage.page_secret`."""
        async with self._database.scoped(scope) as tx:
            return (await self._shared.keyring.tenant_keys(tx, scope.tenant)).pages

    async def holding(self, scope: Scope, path: MemoryPath) -> Holding:
        """See `Storage.holding`; one round trip."""
        async with self._database.scoped(scope) as tx:
            found = await PgSettings(Session(shared=self._shared, tx=tx, scope=scope)).of_alone(path)
        self._holdings[(scope.tenant, path)] = found
        self._holdings.move_to_end((scope.tenant, path))
        if len(self._holdings) > _HOLDINGS_MAX:
            self._holdings.popitem(last=False)
        return found

    async def known_holding(self, scope: Scope, path: MemoryPath) -> Holding:
        """See `Storage.known_holding`."""
        return self._holdings.get((scope.tenant, path)) or await self.holding(scope, path)

    def transaction(self, scope: Scope, *, whole: bool = False) -> AbstractAsyncContextManager[Work]:
        """See `Storage.transaction`."""
        return self._transaction(scope, whole)

    async def find_one(self, scope: Scope, item_id: str) -> Item | None:
        """See `Storage.find_one`; one round trip while the caches are warm."""
        async with self._database.scoped(scope) as tx:
            return await PgItems(Session(shared=self._shared, tx=tx, scope=scope)).find_alone(item_id)

    @asynccontextmanager
    async def _transaction(self, scope: Scope, whole: bool) -> AsyncIterator[Work]:
        begun = self._database.upkeep(scope.tenant) if whole else self._database.scoped(scope)
        try:
            async with begun as tx:
                yield work_of(Session(shared=self._shared, tx=tx, scope=scope, upkeep=whole))
        except ConstraintViolation as error:
            if error.constraint == CLAIMED:
                raise RequestAnswered from error
            if error.constraint == _SETTINGS:
                raise SettingsChanged from error
            if error.constraint in _IDS:
                raise IdTaken from error
            if error.constraint in _QUOTAS:
                raise QuotaExceeded(metadata={"quota": _QUOTAS[error.constraint]}) from error
            raise
