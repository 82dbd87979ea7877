"""Watch: the changes of a subtree as they are committed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from memoryos_core.errors import InvalidPageToken
from memoryos_core.feed import NoNews, follow
from memoryos_core.paging import PageTokens
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.changes import Change
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.transfer import FIRST, FeedPosition

_METHOD: Final = "memoryos.memoryfs.v1.MemoryFS/Watch"
PAGE_SIZE: Final = 100
QUIET_S: Final = 0.5
"""How often a quiet feed is asked; each asking is one short transaction."""
HEARTBEAT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """A parsed Watch."""

    path: MemoryPath
    position: str
    from_start: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """One change, or (None) a sign of life, and the position behind it."""

    change: Change | None
    position: str


async def watch_changes(parts: Parts, scope: Scope, query: WatchQuery) -> AsyncGenerator[Seen, None]:
    """Give every change below the path after the position, in order, until the caller leaves.

    Whoever comes back with the last position misses nothing and sees nothing
    twice. A position is good for its caller and path only (`InvalidPageToken`).
    What is given out is audited before, page by page. A change may wait for a
    long transaction of another caller; the order never breaks for it.
    """
    access.check_read(scope, query.path)
    tokens = PageTokens(await parts.storage.page_secret(scope))
    binding = str(query.path).encode()
    start = _position(tokens.decode(scope, _METHOD, binding, query.position))
    if start is None:
        start = FIRST if query.from_start else await parts.feed.now(scope)

    def token(position: FeedPosition) -> str:
        return tokens.encode(scope, _METHOD, binding, tuple(position))

    last_sent = parts.clock.monotonic()
    yield Seen(None, token(start))
    async for page in follow(
        lambda at: parts.feed.after(scope, query.path, at, PAGE_SIZE), start, news=NoNews(), quiet_s=QUIET_S
    ):
        if page.events:
            changes = [change for _, change in page.events]
            shown = [change.item for change in changes if change.item is not None]
            await parts.trail.gave(_METHOD, scope, query.path, shown, ids=[change.item_id for change in changes])
            for position, change in page.events:
                yield Seen(change, token(position))
        elif parts.clock.monotonic() - last_sent < HEARTBEAT_S:
            continue
        else:
            yield Seen(None, token(page.position))
        last_sent = parts.clock.monotonic()


def _position(decoded: tuple[str | int, ...] | None) -> FeedPosition | None:
    if decoded is None:
        return None
    xid, item_id, rank, number = decoded
    if not (isinstance(xid, int) and isinstance(item_id, str) and isinstance(rank, int) and isinstance(number, int)):
        raise InvalidPageToken
    return FeedPosition(xid, item_id, rank, number)
