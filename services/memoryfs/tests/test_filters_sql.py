"""One translator: random filters on random items give what their meaning says, in SQL, List and Read."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memoryos.memoryfs.v1 import filter_pb2
from memoryos_core.paths import MemoryPath
from memoryos_memoryfs.adapters.matching_ids import matching_ids
from memoryos_memoryfs.adapters.pg_items import PgItems
from memoryos_memoryfs.adapters.places import place_of
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.filter_meaning import matches
from memoryos_memoryfs.filter_messages import filter_of
from memoryos_memoryfs.ports.storage import Look
from memoryos_postgres import Database, roles
from memoryos_testing import scope_of

from .filter_world import entries, filters
from .sessions import shared_of

pytestmark = pytest.mark.integration
ROOTS = tuple(MemoryPath.parse(f"/tenants/acme/memory/{kind}") for kind in ("episodic", "semantic"))
QUIET = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
async def world(service) -> int:
    """Items of two owners in two kinds, all readable by alice."""
    rng = random.Random(11)
    alice, bob = service.caller("alice"), service.caller("bob")
    for root in ROOTS:
        await alice.write_entries(entries(rng, 45), path=str(root))
        shared = entries(rng, 15)
        for entry in shared:
            entry.readers.append("user:alice")
        await bob.write_entries(shared, path=str(root))
    return 120


@pytest.mark.timeout(300)
async def test_sql_says_what_the_meaning_says(world, database, keys):
    """Some 1,600 filters on 120 items, in the order of lists."""
    scope, loop = scope_of(user="alice"), asyncio.get_running_loop()
    async with Database(database.section, roles.MEMORYFS) as opened, opened.scoped(scope) as tx:
        session = Session(shared=shared_of(opened, keys), tx=tx, scope=scope)
        place = await place_of(session, *ROOTS)
        everything = await matching_ids(session, place, Look(paths=ROOTS), limit=1_000)
        items = await PgItems(session).find(everything)
        assert len(items) == world

        async def found(message: filter_pb2.Filter) -> list[str]:
            return await matching_ids(session, place, Look(paths=ROOTS, where=filter_of(message)), limit=1_000)

        @settings(QUIET)
        @given(st.lists(filters(), min_size=10, max_size=30))
        def check(messages: list[filter_pb2.Filter]) -> None:
            for message in messages:
                answer = asyncio.run_coroutine_threadsafe(found(message), loop).result(30)
                where = filter_of(message)
                assert answer == [item_id for item_id in everything if matches(where, items[item_id])], message

        await asyncio.to_thread(check)


async def test_list_and_read_give_the_same_set(world, service):
    alice, loop = service.caller("alice"), asyncio.get_running_loop()
    path = str(ROOTS[0])
    everything = {item.id: item for item in (await alice.list(path=path, page_size=500)).items}

    async def both(message: filter_pb2.Filter) -> tuple[list[str], list[str], list[str]]:
        return (
            await alice.list_ids(path=path, filter=message, page_size=500),
            await alice.read_ids(path=path, filter=message, top_k=200),
            await alice.read_ids("word", path=path, filter=message, top_k=200),
        )

    @settings(QUIET, max_examples=60)
    @given(filters())
    def check(message: filter_pb2.Filter) -> None:
        listed, newest, recalled = asyncio.run_coroutine_threadsafe(both(message), loop).result(30)
        assert set(listed) <= set(everything)
        assert listed == newest
        assert set(recalled) == set(listed)

    await asyncio.to_thread(check)


async def test_absent_is_false_under_none_of_and_lists_are_not_entered_by_number(service):
    alice = service.caller("alice")
    bare = await alice.write("bare of everything")
    listed = await alice.write("with a list", attributes_json=b'{"a":["x"]}')
    condition = filter_pb2.AttributeCondition
    x = filter_pb2.AttributeValue(text="x")
    is_x, entered = condition(path=["a"], eq=x), condition(path=["a", "0"], eq=x)
    none_of = filter_pb2.Filter(none_of=[filter_pb2.Filter(attributes=[is_x])])
    assert set(await alice.list_ids(filter=none_of)) == {bare, listed}
    assert await alice.list_ids(filter=filter_pb2.Filter(attributes=[entered])) == []
    assert await alice.list_ids(filter=filter_pb2.Filter(attributes=[condition(path=["a"], ne=x)])) == []
    assert await alice.list_ids(filter=filter_pb2.Filter(attributes=[condition(path=["a"], contains=x)])) == [listed]
