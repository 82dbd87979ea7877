"""OwnItems on PostgreSQL."""

from __future__ import annotations

from memoryos_core.paths import MemoryPath
from memoryos_postgres import queries

from memoryos_memoryfs.adapters.matching_ids import filter_sql
from memoryos_memoryfs.adapters.places import place_of
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.filters import Filter

_QUERIES = queries.load("memoryos_memoryfs", "sql/lifecycle.sql")


class PgOwnItems:
    """What the caller owns, as one transaction sees it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def view(self) -> str:
        """See `OwnItems.view`."""
        return str(await self._session.tx.fetch_value(_QUERIES["current_view"]))

    async def matching(self, path: MemoryPath, where: Filter, view: str) -> list[tuple[str, str]]:
        """See `OwnItems.matching`."""
        session = self._session
        place = await place_of(session, path)
        owner = access.owner_of(session.scope)
        numbers = await session.shared.names.numbers(session.tx, session.tenant, [owner])
        condition, params = await filter_sql(session, where)
        rows = await session.tx.fetch_all(
            _QUERIES["own_matching"].replace("/*filter*/", condition),
            {
                **params,
                "tenant": session.tenant,
                "path_ids": list(place.path_ids),
                "owner": numbers.get(owner, -1),
                "now": session.shared.clock.now(),
                "clearance": session.scope.clearance,
                "view": view,
            },
        )
        return [(row["id"], row["etag"]) for row in rows]
