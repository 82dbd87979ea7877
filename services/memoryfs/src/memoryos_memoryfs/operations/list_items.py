"""List: the items below a path, newest first, in pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from memoryos_core.errors import InvalidPageToken
from memoryos_core.paging import PageTokens
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.answers import fitting
from memoryos_memoryfs.domain.filters import Filter
from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Look

_METHOD: Final = "memoryos.memoryfs.v1.MemoryFS/List"
PAGE_SIZE_DEFAULT: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """A parsed List. `binding` is the request without its page fields, which page tokens are bound to."""

    path: MemoryPath
    where: Filter
    state: State
    page_size: int
    page_token: str
    binding: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Items and where the next page begins; "" at the end."""

    items: list[Item]
    next_page_token: str


async def list_items(parts: Parts, scope: Scope, query: ListQuery) -> Page:
    """Give a page of readable items in one state, newest first.

    Candidates and forgotten items are shown to their owner only. Items made
    between two pages do not shift the later ones (keyset). A page ends early
    where one more item would make the answer too large.
    """
    access.check_read(scope, query.path)
    tokens = PageTokens(await parts.storage.page_secret(scope))
    before = _position(tokens.decode(scope, _METHOD, query.binding, query.page_token))
    size = query.page_size or PAGE_SIZE_DEFAULT
    async with parts.storage.transaction(scope) as work:
        look = Look(paths=(query.path,), where=query.where, states=(query.state,), include_cold=True)
        found = await work.items.newest(look, before=before, limit=size + 1)
    size = min(size, fitting(found))
    own_only = query.state in (State.CANDIDATE, State.FORGOTTEN)
    page = [
        item
        for item in found[:size]
        if access.readable(scope, item)
        and query.path.contains(item.path)
        and (access.owns(scope, item) or not own_only)
    ]
    token = ""
    if len(found) > size:
        last = found[size - 1]
        token = tokens.encode(scope, _METHOD, query.binding, (_micros(last.create_time), last.id))
    await parts.trail.gave(_METHOD, scope, query.path, page)
    return Page(page, token)


def _micros(instant: datetime) -> int:
    whole = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds


def _position(position: tuple[str | int, ...] | None) -> tuple[datetime, str] | None:
    if position is None:
        return None
    micros, item_id = position
    if not isinstance(micros, int) or not isinstance(item_id, str):
        raise InvalidPageToken
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest), item_id
