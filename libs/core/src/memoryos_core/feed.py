"""One way to follow rows as they come: every Watch is a loop over `follow`.

A source is asked for the page after a position. Positions are the source's own
and are handed to the watcher with every event, so that one who comes back with
the last of them misses nothing and sees nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

E = TypeVar("E")
P = TypeVar("P")

QUIET_S_MAX: Final = 1.0
"""Without news the source is asked again after this time: a lost wake-up delays, it does not lose."""


@dataclass(frozen=True, slots=True)
class FeedPage(Generic[E, P]):
    """What a source has after a position."""

    events: Sequence[E]
    position: P
    """After the last of the events; without one, how far the source has come."""
    more: bool = False
    """Another page is there already."""
    ended: bool = False
    """Nothing will follow."""


class News(Protocol):
    """Wakes a follower early."""

    def clear(self) -> None:
        """Forget what was signalled; called before the source is asked."""

    async def wait(self, timeout_s: float) -> object:
        """Return on a signal, or after the time."""


class NoNews:
    """For sources that nobody signals: they are asked again and again."""

    def clear(self) -> None:
        """See `News.clear`."""

    async def wait(self, timeout_s: float) -> None:
        """See `News.wait`."""
        await asyncio.sleep(timeout_s)


async def follow(
    read: Callable[[P], Awaitable[FeedPage[E, P]]], position: P, *, news: News, quiet_s: float = QUIET_S_MAX
) -> AsyncGenerator[FeedPage[E, P], None]:
    """Give pages from `position` on until the source has ended; one without events whenever it was quiet."""
    while True:
        news.clear()
        page = await read(position)
        position = page.position
        yield page
        if page.ended:
            return
        if not page.more:
            await news.wait(quiet_s)
