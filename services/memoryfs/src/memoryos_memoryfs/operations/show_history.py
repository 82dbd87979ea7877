"""History: what became of one item, newest first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from memoryos_core.errors import InvalidPageToken
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.times import from_micros, micros_of

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.answers import fitting
from memoryos_memoryfs.domain.changes import Change
from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.errors import ItemNotFound
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.history import Position

RPC: Final = "memoryos.memoryfs.v1.MemoryFS/History"
PAGE_SIZE_DEFAULT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    """A parsed History."""

    id: str
    page_size: int
    page_token: str


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes and where the next page begins; "" at the end."""

    changes: list[Change]
    next_page_token: str


async def show_history(parts: Parts, scope: Scope, query: HistoryQuery) -> ChangePage:
    """Give a page of the changes of an item that the caller may read today.

    Of earlier revisions those that were open to the caller themselves: opening
    an item later does not open what it said before. A forgotten item has a
    history for its owner only, without what it said. `ItemNotFound` for anyone
    whom Get would not give the item either.
    """
    tokens = PageTokens(await parts.storage.page_secret(scope))
    binding = query.id.encode()
    before = _position(tokens.decode(scope, RPC, binding, query.page_token))
    size = query.page_size or PAGE_SIZE_DEFAULT
    async with parts.storage.transaction(scope) as work:
        item = (await work.items.find([query.id])).get(query.id)
        found = [] if item is None else await work.history.changes(query.id, before, size + 1)
    if item is None or not _has_history(scope, item) or item.expired(parts.clock.now()):
        await parts.trail.record(RPC, scope, None, [query.id], found=False)
        raise ItemNotFound
    page = [_shown(scope, item, change) for change in found[:size]]
    page = page[: fitting([change.item or item for change in page])]
    token = ""
    if len(found) > len(page):
        token = tokens.encode(scope, RPC, binding, _place(found[len(page) - 1]))
    shown = [change.item for change in page if change.item is not None]
    await parts.trail.gave(RPC, scope, item.path, shown, ids=[query.id])
    return ChangePage(page, token)


def _has_history(scope: Scope, item: Item) -> bool:
    if item.state is State.FORGOTTEN:
        return access.readable(scope, item) and access.owns(scope, item)
    return access.visible(scope, item)


def _shown(scope: Scope, now: Item, change: Change) -> Change:
    """Give a change as the caller may see it: without content where that is forgotten or was not open to it."""
    if change.item is None:
        return change
    hidden = now.state is State.FORGOTTEN or not access.readable(scope, change.item)
    if change.item.state is State.FORGOTTEN:
        # Replaced while it was forgotten: the revision is one that was made, not the forgetting of it.
        change = replace(change, item=replace(change.item, state=change.to_state))
    return replace(change, item=None) if hidden else change


def _place(change: Change) -> tuple[int, int]:
    """Give where a page ends: 0 is the making of a revision, else the time of a change of its state."""
    return (change.revision, micros_of(change.at) if change.item is None else 0)


def _position(position: tuple[str | int, ...] | None) -> Position | None:
    if position is None:
        return None
    revision, micros = position
    if not isinstance(revision, int) or not isinstance(micros, int):
        raise InvalidPageToken
    return revision, from_micros(micros) if micros else None
