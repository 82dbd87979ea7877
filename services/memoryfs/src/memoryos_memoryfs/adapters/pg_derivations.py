"""Derivations on PostgreSQL: what was made from items follows them, in the transaction of their change.

These rows may be of other owners and hidden from the caller, so they are found and
changed with the reach of upkeep, which lasts for these statements only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from memoryos_core.search_words import text_tokens
from memoryos_postgres import queries
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.adapters.session import UPKEEP as _UPKEEP
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.derivation import Replacement, SourceChange, followed, released, superseded
from memoryos_memoryfs.domain.items import Cause, Flag, Item, State
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
        """Lock the items, what was made from them, and what stands or falls with that, in order of id.

        Following locks nothing out of order then.
        """
        if not ids:
            return
        family = await self._asked("family", ids)
        if not any(row["made"] for row in family):
            self._barren.update(ids)
        if family:
            await self._lock_rows({*(row["id"] for row in family), *ids})

    async def lock_all(self, ids: Sequence[str]) -> frozenset[str]:
        """See `Derivations.lock_all`."""
        family = await self._asked("family", ids)
        await self._lock_rows({*(row["id"] for row in family), *ids})
        made = any(row["made"] for row in family)
        parents = frozenset(row["id"] for row in await self._asked("parents_among", ids)) if made else frozenset()
        self._barren.update(item_id for item_id in ids if item_id not in parents)
        return parents

    async def _lock_rows(self, ids: Iterable[str]) -> None:
        async with reaching_all(self._session):
            params = {"tenant": self._session.tenant, "ids": sorted(ids)}
            await self._session.tx.execute(QUERIES["lock_rows"], params)

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
        gone: list[str] = []
        while changes := [c for c in changes if c.matters and c.before.id not in self._barren]:
            sources = {change.before.id: change for change in changes}
            async with reaching_all(self._session):
                ids = [row["id"] for row in await self._asked("derived_directly", list(sources))]
                found = await self._items.find([item_id for item_id in ids if item_id not in seen])
                as_then = {row["id"] for row in await self._asked("seen_by", list(found), point)} if point else set()
                changes = await self._let_follow(list(found.values()), sources, unflagged, as_then)
            seen.update(found)
            gone += [change.before.id for change in changes if change.after is None]
        await self.release(gone)

    async def release(self, gone: Collection[str], *, but: frozenset[str] = frozenset()) -> None:
        """See `Derivations.release`."""
        if not gone:
            return
        async with reaching_all(self._session):
            replacing = await self._replacements(gone)
            names = {name for one in replacing.values() for name in one.derived_from} - but
            sources = (await self._items.find(sorted(names))).values() if names else ()
            await self._stand([s for s in sources if s.state is State.SUPERSEDED], replacing)

    async def take_places(self, back: Sequence[Item]) -> None:
        """See `Derivations.take_places`."""
        now = self._session.shared.clock.now()
        names = [item.id for item in back]
        async with reaching_all(self._session):
            behind = [item for item in (await self._items.find(names)).values() if item.state is State.SUPERSEDED]
            replacing = await self._replacements({item.superseded_by for item in behind})
            gone = {name: one for name, one in replacing.items() if one.state is State.FORGOTTEN}
            await self._stand([i for i in behind if _merged(i, gone.get(i.superseded_by))], gone)
            for item in (await self._items.find(names)).values():
                # What says something else by now is not what the item was made from.
                if item.derived_from and item.state is State.ACTIVE and Flag.SOURCE_CHANGED not in item.flags:
                    sources = (await self._items.find(sorted(item.derived_from))).values()
                    pairs = [(s, superseded(s, item.id, now)) for s in sources if s.state is State.ACTIVE]
                    await self._release(pairs)

    async def _stand(self, sources: Iterable[Item], gone: Mapping[str, Replacement]) -> None:
        """Let those of the sources that items which are gone had replaced stand for themselves, or for what is left."""
        now = self._session.shared.clock.now()
        freed = [source for source in sources if source.superseded_by in gone]
        heirs = {name: await self._heir(gone[name]) for name in {source.superseded_by for source in freed}}
        await self._release([(s, released(s, gone[s.superseded_by], heirs[s.superseded_by], now)) for s in freed])

    async def _heir(self, gone: Replacement) -> str:
        """Give by what an item is replaced today: by nothing where that is forgotten itself, or not there."""
        name, passed = gone.superseded_by, {gone.id}
        while name and name not in passed:
            by = (await self._replacements([name])).get(name)
            if by is None:
                return ""
            if by.state is not State.FORGOTTEN:
                return name
            passed.add(name)
            name = by.superseded_by
        return ""

    async def _replacements(self, ids: Collection[str]) -> dict[str, Replacement]:
        rows = await self._asked("replacements", sorted(ids)) if ids else []
        return {
            row["id"]: Replacement(
                id=row["id"],
                state=State(row["state"]),
                derived_from=tuple(row["derived_from"]),
                superseded_by=row["superseded_by"],
                valid_to=row["valid_to"],
            )
            for row in rows
        }

    async def _release(self, pairs: Sequence[tuple[Item, Item]]) -> None:
        await self._items.replace([_same_words(before, after) for before, after in pairs], Cause.RELEASE)

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
                revised.append(_same_words(item, after))
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


def _same_words(before: Item, after: Item) -> Revised:
    written = Written(item=after, words=text_tokens(after.payload.content), vector=None)
    return Revised(before=before, after=written, keep_vector=True)


def _merged(source: Item, by: Replacement | None) -> bool:
    """Tell whether `source` was merged into `by`, and not replaced by it as a later fact."""
    return by is not None and source.id in by.derived_from
