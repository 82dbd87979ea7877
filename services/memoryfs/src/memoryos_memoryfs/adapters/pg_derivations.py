"""Derivations on PostgreSQL: what was made from items follows them, in the transaction of their change.

These rows may be of other owners and hidden from the caller, so they are found and
changed with the reach of upkeep, which lasts for these statements only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from memoryos_core.search_words import text_tokens
from memoryos_postgres import queries
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.adapters.session import UPKEEP as _UPKEEP
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.derivation import SourceChange, followed
from memoryos_memoryfs.domain.items import Cause, Item, State
from memoryos_memoryfs.ports.storage import Revised, Written

QUERIES = queries.load("memoryos_memoryfs", "sql/history.sql")


@asynccontextmanager
async def reaching_all(session: Session) -> AsyncIterator[None]:
    """Let the statements of the block reach every row of the tenant."""
    if session.reaches_all:
        yield
        return
    await session.tx.set_local({_UPKEEP: "on"})
    session.tx.local[_UPKEEP] = True
    yield
    await session.tx.set_local({_UPKEEP: ""})  # an error ends the transaction, and the setting with it
    session.tx.local[_UPKEEP] = False


class _Rows(Protocol):
    """What following needs of the truth."""

    async def find(self, ids: Sequence[str]) -> dict[str, Item]: ...

    async def replace(self, items: Sequence[Revised], cause: Cause) -> None: ...

    async def move(self, items: Sequence[Item], state: State, cause: Cause) -> None: ...


class PgDerivations:
    """What was made from the items of one transaction."""

    def __init__(self, session: Session, items: _Rows) -> None:
        self._session = session
        self._items = items
        self._barren: set[str] = set()
        """Locked items from which nothing was made: until this transaction ends nothing will be."""

    async def lock_family(self, ids: Sequence[str]) -> None:
        """Lock the items and everything made from them, in order of id: following locks nothing out of order then."""
        if not ids:
            return
        made = {row["id"] for row in await self._asked("derived_closure", ids)}
        if not made:
            self._barren.update(ids)
            return
        async with reaching_all(self._session):
            params = {"tenant": self._session.tenant, "ids": sorted({*made, *ids})}
            await self._session.tx.execute(QUERIES["lock_rows"], params)

    async def lock_all(self, ids: Sequence[str]) -> frozenset[str]:
        """See `Derivations.lock_all`."""
        made = {row["id"] for row in await self._asked("derived_closure", ids)}
        async with reaching_all(self._session):
            params = {"tenant": self._session.tenant, "ids": sorted({*made, *ids})}
            await self._session.tx.execute(QUERIES["lock_rows"], params)
        parents = frozenset(row["id"] for row in await self._asked("parents_among", ids)) if made else frozenset()
        self._barren.update(item_id for item_id in ids if item_id not in parents)
        return parents

    async def follow(
        self,
        changes: Sequence[SourceChange],
        *,
        unless: frozenset[str] = frozenset(),
        unflagged: frozenset[str] = frozenset(),
        point: str = "",
    ) -> None:
        """See `Derivations.follow`."""
        # Items made by a merge come later than their sources, so there is no way round; the names seen bound it anyway.
        seen = set(unless)
        while changes := [c for c in changes if c.matters and c.before.id not in self._barren]:
            sources = {change.before.id: change for change in changes}
            async with reaching_all(self._session):
                ids = [row["id"] for row in await self._asked("derived_directly", list(sources))]
                found = await self._items.find([item_id for item_id in ids if item_id not in seen])
                as_then = {row["id"] for row in await self._asked("seen_by", list(found), point)} if point else set()
                changes = await self._let_follow(list(found.values()), sources, unflagged, as_then)
            seen.update(found)

    async def held_back(self, items: Sequence[Item]) -> frozenset[str]:
        """See `Derivations.held_back`."""
        derived = [item for item in items if item.derived_from]
        if not derived:
            return frozenset()
        sources = sorted({source for item in derived for source in item.derived_from})
        states = {row["id"]: State(row["state"]) for row in await self._asked("source_states", sources)}
        # A source may also be missing because the item was imported without it: then nothing withdrew the item.
        lost = [item.id for item in derived if any(source not in states for source in item.derived_from)]
        withdrawn = {row["id"] for row in await self._asked("withdrawn", lost)} if lost else set()
        forgotten = {
            item.id for item in derived if any(states.get(source) is State.FORGOTTEN for source in item.derived_from)
        }
        return frozenset(forgotten | withdrawn)

    async def _let_follow(
        self, items: Sequence[Item], sources: dict[str, SourceChange], unflagged: frozenset[str], as_then: set[str]
    ) -> list[SourceChange]:
        """Change the items as their changed sources ask for; give what became of them."""
        now = self._session.shared.clock.now()
        gone: list[Item] = []
        revised: list[Revised] = []
        for item in items:
            changed = [sources[name] for name in item.derived_from if name in sources]
            if item.id in as_then:
                changed = [change for change in changed if change.after is None]
            after = followed(item, changed, now, flagged=item.id not in unflagged)
            if after is None:
                if item.state is not State.FORGOTTEN:
                    gone.append(item)
            elif after is not item:
                written = Written(item=after, words=text_tokens(after.payload.content), vector=None)
                revised.append(Revised(before=item, after=written, keep_vector=True))
        await self._items.replace(revised, Cause.SOURCE)
        if gone:
            await self._items.move(gone, State.FORGOTTEN, Cause.SOURCE)
        changes = [SourceChange(before=item, after=None) for item in gone]
        return changes + [SourceChange(before=change.before, after=change.after.item) for change in revised]

    async def _asked(self, name: str, ids: Iterable[str], point: str = "") -> list[Row]:
        params = {"tenant": self._session.tenant, "ids": list(ids), "point": point}
        if self._session.reaches_all:
            return await self._session.tx.fetch_all(QUERIES[name], params)
        return await self._session.tx.fetch_planned({_UPKEEP: "on"}, QUERIES[name], params)
