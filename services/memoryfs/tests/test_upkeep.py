"""What happens beside the calls: expired index rows go, hits are counted."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from memoryos.memoryfs.v1 import memoryfs_pb2
from memoryos_core.clock import SystemClock


class Shifted(SystemClock):
    """The machine's clock, moved on by a test."""

    shift = timedelta()

    def now(self):
        return super().now() + self.shift


async def rows_become(service, query: str, expected: list) -> None:
    async with asyncio.timeout(15):
        while await service.rows(query) != expected:  # noqa: ASYNC110 - the service under test changes it
            await asyncio.sleep(0.02)


async def test_index_rows_of_expired_items_are_removed_and_no_others(start_service):
    clock = Shifted()
    service = await start_service(clock=clock, upkeep_s=0.05)
    alice, mallory = service.caller("alice"), service.caller("mallory", tenant="evil")
    for caller in (alice, mallory):
        await caller.write_entries(
            [memoryfs_pb2.WriteEntry(content=f"short {n}", ttl={"seconds": 60}) for n in range(9)]
        )
    longer = (await alice.write_entries([memoryfs_pb2.WriteEntry(content="longer", ttl={"seconds": 60})]))[0].id
    await alice.update(longer, ttl={"seconds": 3600})
    kept = await alice.write("for ever")
    clock.shift = timedelta(seconds=61)
    for table in ("item_tokens", "item_vectors"):
        await rows_become(service, f"SELECT item_id FROM memoryfs.{table} ORDER BY item_id", [(longer,), (kept,)])
    assert set(await alice.read_ids("longer")) == {longer, kept}
    assert await service.rows("SELECT count(*) FROM memoryfs.items") == [(20,)]


async def test_hits_are_counted_beside_the_index(start_service):
    service = await start_service(upkeep_s=0.05)
    alice = service.caller("alice")
    first, second = await alice.write("pump one"), await alice.write("pump two")
    await alice.read("pump", top_k=2)
    await alice.read("pump one", top_k=1)
    await rows_become(
        service, "SELECT item_id, hits FROM memoryfs.item_access ORDER BY item_id", [(first, 2), (second, 1)]
    )


async def test_an_item_that_outlives_its_sweep_during_an_update_gets_its_vector_again(start_service):
    clock = Shifted()
    service = await start_service(clock=clock, upkeep_s=0.05)
    alice = service.caller("alice")
    (result,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="pump handle", ttl={"seconds": 60})])
    embed, going_on = service.embedder.embed, asyncio.Event()

    async def slow(texts, *, deadline_s):
        clock.shift = timedelta(seconds=61)
        await going_on.wait()
        return await embed(texts, deadline_s=deadline_s)

    service.embedder.embed = slow
    update = asyncio.create_task(
        alice.write_entries(
            [
                memoryfs_pb2.WriteEntry(id=result.id, ttl={"seconds": 3600}),
                memoryfs_pb2.WriteEntry(content="another"),
            ]
        )
    )
    await rows_become(service, "SELECT item_id FROM memoryfs.item_vectors", [])
    service.embedder.embed = embed
    going_on.set()
    await update
    await rows_become(service, "SELECT count(*) FROM memoryfs.item_vectors", [(2,)])
    hits = (await alice.read("pump handle", top_k=1)).hits
    assert hits[0].item.id == result.id
    assert hits[0].details.dense > 0.99
    assert await service.rows("SELECT embed_state FROM memoryfs.items WHERE embed_state <> 1") == []
