"""A list of a hundred thousand items, walked page by page while rows come and go: each that stays is given once."""

from __future__ import annotations

import asyncio

import pytest
from memoryos.memoryfs.v1 import memoryfs_pb2

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]
ITEMS = 100_000
BATCH = 500


async def test_a_hundred_thousand_are_walked_while_rows_come_and_go(service):
    alice = service.caller("alice")
    vector = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)

    async def fill(first: int) -> list[str]:
        entries = [memoryfs_pb2.WriteEntry(content=f"n{n}", embedding=vector) for n in range(first, first + BATCH)]
        return [result.id for result in await alice.write_entries(entries)]

    staying: list[str] = []
    for start in range(0, ITEMS, 4 * BATCH):
        for ids in await asyncio.gather(*(fill(start + k * BATCH) for k in range(4))):
            staying += ids
    going = set(staying[:: ITEMS // 50])
    staying = [item_id for item_id in staying if item_id not in going]
    walked, coming = asyncio.Event(), 0

    async def come_and_go() -> None:
        nonlocal coming
        left = sorted(going)
        while not walked.is_set():
            await alice.write(f"new {coming}", embedding=vector)
            coming += 1
            if left:
                await alice.forget(left.pop())

    beside = asyncio.create_task(come_and_go())
    seen: list[str] = []
    token = ""
    while True:
        page = await alice.list(page_size=500, page_token=token)
        seen += [item.id for item in page.items]
        token = page.next_page_token
        if not token:
            break
    walked.set()
    await beside
    assert len(seen) == len(set(seen))
    assert set(staying) <= set(seen)
    assert coming > 0
    assert len(seen) <= len(staying) + len(going) + coming
