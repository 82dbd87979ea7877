"""A follower misses nothing, sees nothing twice, and ends with its source."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from memoryos_core.feed import FeedPage, NoNews, follow


class Numbers:
    """A source of numbers that grow while it is read; ends at 7."""

    def __init__(self) -> None:
        self.there = 3
        self.reads = 0

    async def read(self, position: int) -> FeedPage[int, int]:
        self.reads += 1
        events = list(range(position + 1, min(self.there, position + 2) + 1))
        last = events[-1] if events else position
        return FeedPage(events, last, more=last < self.there, ended=last == 7)


class Signal:
    """Lets the source grow instead of waiting."""

    def __init__(self, source: Numbers) -> None:
        self.source, self.waits = source, 0

    def clear(self) -> None:
        pass

    async def wait(self, timeout_s: float) -> None:
        self.waits += 1
        self.source.there += 2


async def test_everything_comes_once_and_in_order_until_the_end():
    source = Numbers()
    signal = Signal(source)
    seen = [event async for page in follow(source.read, 0, news=signal) for event in page.events]
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert signal.waits == 2


async def test_a_follower_that_comes_back_goes_on_behind_what_it_saw():
    source = Numbers()
    async with aclosing(follow(source.read, 0, news=Signal(source))) as pages:
        async for page in pages:
            position = page.position
            break
    seen = [event async for page in follow(source.read, position, news=Signal(source)) for event in page.events]
    assert seen == [3, 4, 5, 6, 7]


async def test_a_quiet_source_gives_empty_pages_that_keep_a_stream_alive():
    async def nothing(position: int) -> FeedPage[int, int]:
        return FeedPage([], position + 1)

    async with asyncio.timeout(5), aclosing(follow(nothing, 0, news=NoNews(), quiet_s=0.001)) as pages:
        positions = [(await anext(pages)).position for _ in range(3)]
    assert positions == [1, 2, 3]
