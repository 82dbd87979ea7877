"""Unused items grow cold and come back by use; retention and budgets forget, and say why."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2, namespace_pb2
from memoryos_core.clock import SystemClock

_numbers = itertools.count(1)
EXPIRE = 15


class Shifted(SystemClock):
    """The machine's clock, moved on by a test."""

    shift = timedelta()

    def now(self):
        return super().now() + self.shift


async def rows_become(service, query: str, expected: list) -> None:
    async with asyncio.timeout(20):
        while (found := await service.rows(query)) != expected:
            del found
            await asyncio.sleep(0.05)


async def set_path(caller, path: str, **settings) -> None:
    request = namespace_pb2.SetPathSettingsRequest(
        settings=namespace_pb2.PathSettings(path=path, **settings), request_id=f"set-{next(_numbers)}"
    )
    await caller.call("SetPathSettings", request)


@pytest.fixture
def clock() -> Shifted:
    return Shifted()


@pytest.fixture
async def quick(start_service, clock):
    """A service whose upkeep is due at once, again and again."""
    return await start_service(clock=clock, upkeep_s=0.05, lifecycle_s=0.1)


async def test_unused_items_grow_cold_and_come_back_by_use(quick, clock):
    service = quick
    alice = service.caller("alice", roles=frozenset({"agent", "tenant-admin"}))
    await set_path(alice, alice.path, hot_window={"seconds": 1800})  # tokens of tests live an hour
    first = await alice.write("the boiler stands in the cellar")
    second = await alice.write("the attic is dry")
    clock.shift = timedelta(minutes=20)
    await alice.update(second, tags=["house"])  # a change is use
    clock.shift = timedelta(minutes=31)
    await rows_become(service, "SELECT item_id FROM memoryfs.cold_tokens", [(first,)])
    clock.shift = timedelta(minutes=20)
    await rows_become(service, "SELECT item_id FROM memoryfs.item_vectors WHERE tier = 2", [(first,)])
    await rows_become(service, "SELECT count(*) FROM memoryfs.item_changes WHERE cause = 14", [(1,)])
    assert (await alice.get(first)).tier == item_pb2.TIER_COLD
    assert await alice.read_ids("boiler cellar") == [second]
    assert await alice.read_ids() == [second]
    assert (await alice.get(first)).revision == 1
    hits = (await alice.read("boiler cellar", include_cold=True)).hits
    assert hits[0].item.id == first
    assert hits[0].details.lexical > 0
    assert hits[0].details.dense > 0
    # what was found is hot again, and stays so: it was used now
    await rows_become(service, "SELECT item_id FROM memoryfs.cold_tokens", [])
    await rows_become(service, "SELECT count(*) FROM memoryfs.item_vectors WHERE tier = 2", [(0,)])
    assert (await alice.read_ids("boiler cellar"))[0] == first
    rows = await service.rows("SELECT tenant, last_reason, cold_count >= 0 FROM memoryfs.upkeep_runs")
    assert rows == [("acme", "", True)]


async def test_a_cold_item_is_forgotten_and_restored_as_it_was(quick, clock):
    alice = quick.caller("alice")
    first = await alice.write("old and unused")
    clock.shift = timedelta(days=91)
    await rows_become(quick, "SELECT item_id FROM memoryfs.cold_tokens", [(first,)])
    clock.shift = timedelta()
    await alice.forget(first)
    for table in ("cold_tokens", "item_tokens", "item_vectors"):
        assert await quick.rows(f"SELECT count(*) FROM memoryfs.{table}") == [(0,)]
    await alice.restore(first)
    assert (await alice.get(first)).tier == item_pb2.TIER_COLD
    assert await quick.rows("SELECT item_id FROM memoryfs.cold_tokens") == [(first,)]
    assert await quick.rows("SELECT tier FROM memoryfs.item_vectors") == [(2,)]
    (again,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="old and unused")])
    assert again.id == first


async def test_a_path_has_its_own_window_and_zero_is_never(quick, clock):
    alice = quick.caller("alice", roles=frozenset({"agent", "tenant-admin"}))
    brief, ever = f"{alice.path}/brief", f"{alice.path}/ever"
    await set_path(alice, brief, hot_window={"seconds": 86_400})
    await set_path(alice, ever, hot_window={"seconds": 0})
    first = await alice.write("one", path=f"{brief}/x")
    await alice.write("two", path=ever)
    await alice.write("three")
    clock.shift = timedelta(days=2)
    await rows_become(quick, "SELECT item_id FROM memoryfs.cold_tokens", [(first,)])
    clock.shift = timedelta(days=400)
    await rows_become(quick, "SELECT count(*) FROM memoryfs.cold_tokens", [(2,)])


async def test_retention_forgets_and_says_so(quick, clock):
    alice = quick.caller("alice", roles=frozenset({"agent", "tenant-admin"}))
    log = f"{alice.path}/log"
    await set_path(alice, log, retention={"seconds": 30 * 86_400})
    old = await alice.write("an old line", path=f"{log}/a")
    kept = await alice.write("kept for ever")
    clock.shift = timedelta(days=31)
    query = "SELECT item_id, cause, actor FROM memoryfs.item_changes WHERE cause = 15"
    await rows_become(quick, query, [(old, EXPIRE, "user:upkeep")])
    clock.shift = timedelta()
    young = await alice.write("a young line", path=f"{log}/a")
    assert sorted(await alice.list_ids()) == sorted([kept, young])
    assert await alice.list_ids(state=item_pb2.STATE_FORGOTTEN) == [old]


async def test_a_budget_keeps_pins_then_importance_then_use_then_the_newest(quick):
    alice = quick.caller("alice", roles=frozenset({"agent", "tenant-admin"}))
    notes = f"{alice.path}/notes"
    oldest = await alice.write("oldest", path=notes)
    pinned = await alice.write("pinned", path=notes, importance=0.0, pinned=True)
    vital = await alice.write("vital", path=f"{notes}/deep", importance=0.9)
    used = await alice.write("used often", path=notes)
    await alice.read("used often", path=notes, top_k=1)
    await rows_become(quick, "SELECT item_id FROM memoryfs.item_access", [(used,)])
    newest = await alice.write("newest", path=notes)
    elsewhere = await alice.write("elsewhere")
    query = "SELECT item_id FROM memoryfs.item_changes WHERE cause = 16 ORDER BY change_time"
    gone = []
    for keep_max, least in ((4, oldest), (3, newest), (2, used), (1, vital)):
        await set_path(alice, notes, keep_max=keep_max)
        gone.append((least,))
        await rows_become(quick, query, gone)
    assert sorted(await alice.list_ids()) == sorted([pinned, elsewhere])
