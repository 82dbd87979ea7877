"""Diff: what differs below a path between a snapshot and another one, or now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from memoryos_core.errors import InvalidField, InvalidPageToken
from memoryos_core.paging import PageTokens
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.answers import fitting
from memoryos_memoryfs.domain.differences import Difference, difference
from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.domain.points import Mark, as_it_was, before_all
from memoryos_memoryfs.operations.take_snapshot import found_snapshot
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Work

RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Diff"
PAGE_SIZE_DEFAULT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffQuery:
    """A parsed Diff. `binding` is the request without its page fields."""

    path: MemoryPath
    from_id: str
    to_id: str
    page_size: int
    page_token: str
    binding: bytes


@dataclass(frozen=True, slots=True)
class DiffPage:
    """Differences by id, and where the next page begins; "" at the end."""

    differences: list[Difference]
    next_page_token: str


async def diff_points(parts: Parts, scope: Scope, query: DiffQuery) -> DiffPage:
    """Give a page of what differs, as far as the caller may read it today.

    Each side counts only where it was open to the caller then, too. What is
    forgotten today shows its name to its owner and its content to nobody; what
    is erased is not there. A page may be short; the token says whether it is the last.
    """
    access.check_read(scope, query.path)
    tokens = PageTokens(await parts.storage.page_secret(scope))
    after = _position(tokens.decode(scope, RPC, query.binding, query.page_token))
    size = query.page_size or PAGE_SIZE_DEFAULT
    found: list[Difference] = []
    async with parts.storage.transaction(scope) as work:
        start = await found_snapshot(work, scope, query.from_id, query.path)
        end = await found_snapshot(work, scope, query.to_id, query.path) if query.to_id else None
        if end is not None and end.create_time < start.create_time:
            raise InvalidField.of("to_snapshot_id", "is earlier than from_snapshot_id")
        compared = _Compared(work, scope, query.path, start.point, end.point if end else None, parts.clock.now())
        more = True
        while more and not found:
            ids = await work.history.touched(query.path, start.point, after=after, limit=size + 1)
            more, ids = len(ids) > size, ids[:size]
            found = await compared.differences(ids)
            after = ids[-1] if ids else after
    fits = _fitting(found)
    if fits < len(found):
        more, found = True, found[:fits]
        after = found[-1].id
    shown = [side for entry in found for side in (entry.before, entry.after) if side is not None]
    await parts.trail.gave(RPC, scope, query.path, shown, ids=[entry.id for entry in found])
    return DiffPage(found, tokens.encode(scope, RPC, query.binding, (after,)) if more else "")


class _Compared:
    """Two states of a subtree, as one caller may see them today."""

    def __init__(self, work: Work, scope: Scope, path: MemoryPath, start: str, end: str | None, now: datetime) -> None:
        self._work = work
        self._scope = scope
        self._path = path
        self._start = start
        self._end = end
        self._now = now

    async def differences(self, ids: Sequence[str]) -> list[Difference]:
        """Give how those of the items that the caller may read today differ."""
        today = await self._work.items.find(ids)
        first = await self._work.history.marks(ids, self._start)
        then = await self._states(today, first)
        if self._end is None:
            later: Mapping[str, Item | None] = today
        else:
            last = await self._work.history.marks(ids, self._end)
            later = await self._states(today, last)
            first = {name: marks for name, marks in first.items() if len(marks) > len(last.get(name, ()))}
        found = []
        for item_id in sorted(first.keys() & today.keys()):
            entry = self._difference(today[item_id], then.get(item_id), later.get(item_id))
            if entry is not None:
                found.append(entry)
        return found

    def _difference(self, today: Item, before: Item | None, after: Item | None) -> Difference | None:
        """Give the difference as far as today's state of the item lets the caller see it."""
        if not access.readable(self._scope, today):
            return None
        entry = difference(today.id, self._shown(before), self._shown(after))
        gone = today.state is State.FORGOTTEN or today.expired(self._now)
        hidden = gone or (today.state is State.CANDIDATE and not access.owns(self._scope, today))
        if entry is None or not hidden:
            return entry
        return replace(entry, before=None, after=None, fields=()) if access.owns(self._scope, today) else None

    def _shown(self, item: Item | None) -> Item | None:
        """Give a side where it was there, below the path, and open to the caller."""
        if item is None or not self._path.contains(item.path):
            return None
        return item if access.visible(self._scope, item) else None

    async def _states(self, today: Mapping[str, Item], marks: Mapping[str, Sequence[Mark]]) -> dict[str, Item | None]:
        """Give each item as it was before its marks; None where it was not there or is not for the caller to see."""
        wanted = {name: before_all(marks[name]) for name in today if marks.get(name)}
        named = {n: e.revision for n, e in wanted.items() if 0 < e.revision < today[n].revision}
        formers = await self._work.history.revisions(named)
        states: dict[str, Item | None] = dict(today)
        for name, earlier in wanted.items():
            former = formers[name].item if name in formers else None
            then = today[name] if earlier.revision == today[name].revision else former
            states[name] = as_it_was(earlier, then) if then is not None and earlier.revision else None
        return states


def _fitting(found: Sequence[Difference]) -> int:
    """Give how many differences fit into one answer, at least one."""
    sides = [side for entry in found for side in (entry.before, entry.after) if side is not None]
    room = fitting(sides)
    if room == len(sides):
        return len(found)
    count = taken = 0
    for entry in found:
        taken += (entry.before is not None) + (entry.after is not None)
        if taken > room:
            break
        count += 1
    return max(count, 1)


def _position(position: tuple[str | int, ...] | None) -> str:
    if position is None:
        return ""
    (after,) = position
    if not isinstance(after, str):
        raise InvalidPageToken
    return after
