"""Qdrant down, slow, answering half or twice: writes are kept, reads are whole, the copy catches up by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2
from memoryos_memoryfs.adapters.pg_tiers import move_tier
from memoryos_memoryfs.copy_worker import HEALTH_PART
from memoryos_memoryfs.domain.items import Tier
from memoryos_postgres import Database, roles
from memoryos_testing.faulty_index import deliver
from memoryos_vectors.errors import IndexUnavailable
from memoryos_vectors.ports import IndexScope, VectorQuery

pytestmark = pytest.mark.integration
FALLBACK = memoryfs_pb2.DEGRADATION_INDEX_FALLBACK


@pytest.fixture
async def on_qdrant(start_service, faulty, service_embedder):
    """A MemoryFS whose searches a Qdrant in local mode answers, with faults on the way to it."""
    return await start_service(derived=faulty, embedder=service_embedder, vector_backend="qdrant")


async def becomes(state, expected) -> None:
    """Wait until `await state()` is what is expected."""
    async with asyncio.timeout(20):
        while await state() != expected:  # noqa: ASYNC110 - the service under test changes it
            await asyncio.sleep(0.02)


async def until(service, query: str, expected) -> None:
    await becomes(lambda: service.rows(query), expected)


async def copied(service) -> None:
    """Wait until nothing waits for the copy."""
    await until(service, "SELECT count(*) FROM memoryfs.index_outbox", [(0,)])


async def points(faulty, service, tenant: str = "acme") -> list[str]:
    page = await faulty.inner.scan(tenant, service.embedder.model_id)
    return sorted(entry.item_id for entry in page.entries)


async def health(service) -> int:
    stub = health_pb2_grpc.HealthStub(service.channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=HEALTH_PART))).status


async def degradations(caller, query: str) -> list[int]:
    return list((await caller.read(query)).degradations)


async def held_back(faulty) -> bool:
    return bool(faulty.late)


@asynccontextmanager
async def stopped_copying(service, faulty) -> AsyncIterator[None]:
    """Let nothing reach the copy by writing; searches still do."""
    replace, faulty.inner.replace = faulty.inner.replace, _refuse
    try:
        yield
    finally:
        faulty.inner.replace = replace
    await copied(service)


async def _refuse(*_args) -> None:
    raise IndexUnavailable


async def test_searches_are_answered_by_the_copy(on_qdrant, faulty):
    alice = on_qdrant.caller("alice")
    ids = [await alice.write(f"pump number {n}") for n in range(5)]
    await copied(on_qdrant)
    assert await points(faulty, on_qdrant) == sorted(ids)
    answer = await alice.read("pump number 3", top_k=3)
    assert answer.hits[0].item.id == ids[3]
    assert faulty.searches
    assert not answer.degradations


async def test_what_grows_cold_is_copied_too(on_qdrant, faulty):
    item = await on_qdrant.caller("alice").write("the boiler stands in the cellar")
    await copied(on_qdrant)
    async with Database(on_qdrant.database.section, roles.MEMORYFS) as database, database.upkeep("acme") as tx:
        assert await move_tier(tx, "acme", [item], Tier.COLD) == 1
    await copied(on_qdrant)
    entry = (await faulty.inner.kept("acme", on_qdrant.embedder.model_id, [item]))[item]
    assert entry.tier.name == "COLD"


async def test_down_writes_are_kept_reads_whole_and_flagged_health_says_so_and_it_catches_up(on_qdrant, faulty):
    alice = on_qdrant.caller("alice")
    before = await alice.write("valve before the outage")
    await copied(on_qdrant)
    faulty.down = True
    during = [await alice.write(f"valve during the outage {n}") for n in range(30)]
    for n in range(10):
        answer = await alice.read(f"valve during the outage {n}", top_k=40)
        assert {hit.item.id for hit in answer.hits} == {before, *during}
        assert answer.hits[0].item.id == during[n]
        assert answer.hits[0].details.dense > 0.99
    assert list(answer.degradations) == [FALLBACK]
    assert faulty.searches < 10  # the breaker spares most of them the wait
    await becomes(lambda: health(on_qdrant), health_pb2.HealthCheckResponse.NOT_SERVING)
    assert await on_qdrant.rows("SELECT count(*) FROM memoryfs.index_outbox WHERE failed_time IS NOT NULL") == [(0,)]
    faulty.down = False
    await copied(on_qdrant)
    assert await points(faulty, on_qdrant) == sorted([before, *during])
    await becomes(lambda: degradations(alice, "valve"), [])
    await becomes(lambda: health(on_qdrant), health_pb2.HealthCheckResponse.SERVING)


async def test_slow_reads_end_in_time_and_are_whole(start_service, faulty, service_embedder):
    service = await start_service(
        derived=faulty, embedder=service_embedder, vector_backend="qdrant", qdrant={"search_timeout_s": 0.05}
    )
    alice = service.caller("alice")
    ids = [await alice.write(f"bolt {n}") for n in range(4)]
    await copied(service)
    faulty.slow_s = 600
    answer = await alice.read("bolt 2", top_k=4)
    assert answer.hits[0].item.id == ids[2]
    assert {hit.item.id for hit in answer.hits} == set(ids)
    assert list(answer.degradations) == [FALLBACK]


@pytest.mark.parametrize("fault", ["half", "twice"])
async def test_half_a_batch_or_twice_the_same_ends_as_the_truth(on_qdrant, faulty, fault):
    alice = on_qdrant.caller("alice")
    setattr(faulty, fault, True)
    results = await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"gear {n}") for n in range(21)])
    ids = [result.id for result in results]
    await copied(on_qdrant)
    assert await points(faulty, on_qdrant) == sorted(ids)
    await alice.forget(*ids[:5])
    await copied(on_qdrant)
    assert await points(faulty, on_qdrant) == sorted(ids[5:])
    assert set(await alice.read_ids("gear", top_k=50)) == set(ids[5:])


async def test_a_change_made_while_its_item_is_copied_is_copied_after_it(on_qdrant, faulty):
    alice, sending, go_on = on_qdrant.caller("alice"), asyncio.Event(), asyncio.Event()
    replace = faulty.inner.replace

    async def slow(*args) -> None:
        sending.set()
        await go_on.wait()
        await replace(*args)

    faulty.inner.replace = slow
    item = await alice.write("first")
    await sending.wait()
    await alice.update(item, content="second")  # does not wait for the copier
    go_on.set()
    await copied(on_qdrant)
    kept = await faulty.inner.kept("acme", on_qdrant.embedder.model_id, [item])
    assert kept[item].revision == 2


async def test_a_lost_answer_is_asked_again(on_qdrant, faulty):
    alice = on_qdrant.caller("alice")
    faulty.lost_answers = 2
    item = await alice.write("flange")
    await copied(on_qdrant)
    assert await points(faulty, on_qdrant) == [item]


async def test_what_is_written_is_found_by_meaning_at_once_whether_copied_or_not(on_qdrant, faulty):
    alice = on_qdrant.caller("alice")
    old = await alice.write("the red lamp blinks")
    await copied(on_qdrant)
    async with stopped_copying(on_qdrant, faulty):
        new = await alice.write("the red lamp is out")
        answer = await alice.read("the red lamp is out", top_k=2)
        assert [hit.item.id for hit in answer.hits] == [new, old]
        assert answer.hits[0].details.dense > 0.99
        assert not answer.degradations
        await alice.update(old, content="the green lamp is out")
        hits = (await alice.read("the green lamp is out", top_k=2)).hits
        assert [hit.item.id for hit in hits] == [old, new]
        assert hits[0].details.dense > 0.99
    assert await alice.read_ids("the green lamp is out", top_k=2) == [old, new]


async def test_forgotten_while_pending_is_gone_and_stays_gone(on_qdrant, faulty):
    alice = on_qdrant.caller("alice")
    kept, gone = await alice.write("oil filter"), await alice.write("a worn brake disc")
    await copied(on_qdrant)
    async with stopped_copying(on_qdrant, faulty):
        fresh = await alice.write("the wiper squeaks")
        await alice.forget(gone, fresh)
        assert await points(faulty, on_qdrant) == sorted([kept, gone])
        assert await alice.read_ids("oil filter", top_k=5) == [kept]
    assert await points(faulty, on_qdrant) == [kept]
    await alice.restore(gone)
    assert set(await alice.read_ids("oil filter", top_k=5)) == {kept, gone}
    await copied(on_qdrant)
    assert set(await alice.read_ids("oil filter", top_k=5)) == {kept, gone}


async def test_readers_taken_away_while_pending_see_nothing(on_qdrant, faulty):
    alice, bob = on_qdrant.caller("alice"), on_qdrant.caller("bob")
    item = await alice.write("salary table", readers=["user:bob"])
    await copied(on_qdrant)
    assert await bob.read_ids("salary table") == [item]
    async with stopped_copying(on_qdrant, faulty):
        await alice.update(item, readers=["user:carol"])
        assert await bob.read_ids("salary table") == []
        assert await alice.read_ids("salary table") == [item]
        other = await alice.write("bonus table")
        await alice.update(other, readers=["user:bob"])
        assert await bob.read_ids("bonus table") == [other]
    entry = (await faulty.inner.kept("acme", on_qdrant.embedder.model_id, [item]))[item]
    assert (entry.revision, len(entry.acl)) == (2, 2)


async def test_a_late_write_of_an_old_revision_changes_nothing(on_qdrant, faulty):
    alice = on_qdrant.caller("alice")
    faulty.hold_back = True
    item = await alice.write("first words")
    await becomes(lambda: held_back(faulty), True)
    faulty.hold_back = False
    await copied(on_qdrant)
    await alice.update(item, content="second words")
    await copied(on_qdrant)
    await deliver(faulty)
    hit = (await alice.read("second words")).hits[0]
    assert (hit.item.id, hit.details.dense > 0.99) == (item, True)


async def test_a_poison_item_is_given_up_and_found_all_the_same_its_neighbours_are_copied(
    start_service, faulty, service_embedder
):
    service = await start_service(
        derived=faulty,
        embedder=service_embedder,
        vector_backend="qdrant",
        qdrant={"copy_attempts_max": 3, "copy_retry_s": 0.01},
    )
    alice, mallory = service.caller("alice"), service.caller("mallory", tenant="evil")
    poison = await alice.write("poison")
    await copied(service)
    faulty.poison = frozenset({poison})
    await alice.update(poison, content="poison again")
    neighbours = [await alice.write(f"good {n}") for n in range(5)]
    foreign = await mallory.write("good")
    await until(
        service,
        "SELECT DISTINCT item_id, last_reason FROM memoryfs.index_outbox WHERE failed_time IS NOT NULL",
        [(poison, "INTERNAL")],
    )
    await until(service, "SELECT DISTINCT item_id FROM memoryfs.index_outbox", [(poison,)])
    assert set(await points(faulty, service)) >= set(neighbours)
    assert await points(faulty, service, "evil") == [foreign]
    hit = (await alice.read("poison again", top_k=1)).hits[0]
    assert (hit.item.id, hit.details.dense > 0.99) == (poison, True)
    faulty.poison = frozenset()
    await alice.update(poison, content="poison no more")  # a new change takes the old rows along
    await copied(service)


async def test_above_the_limit_of_what_waits_writes_go_on_and_reads_are_whole(start_service, faulty, service_embedder):
    service = await start_service(
        derived=faulty, embedder=service_embedder, vector_backend="qdrant", qdrant={"pending_max": 3}
    )
    alice = service.caller("alice")
    async with stopped_copying(service, faulty):
        ids = [await alice.write(f"crate {n}") for n in range(6)]
        answer = await alice.read("crate 5", top_k=6)
        assert {hit.item.id for hit in answer.hits} == set(ids)
        assert list(answer.degradations) == [FALLBACK]
    answer = await alice.read("crate 5", top_k=6)
    assert ({hit.item.id for hit in answer.hits}, list(answer.degradations)) == (set(ids), [])


async def test_a_lost_copy_is_made_again(start_service, faulty, service_embedder):
    service = await start_service(derived=faulty, embedder=service_embedder, vector_backend="qdrant")
    alice = service.caller("alice")
    ids = [await alice.write(f"pipe {n}") for n in range(5)]
    await copied(service)
    for name in list(faulty.inner._names.values()):
        await faulty.inner._client.delete_collection(name)
    answer = await alice.read("pipe 1", top_k=5)
    assert {hit.item.id for hit in answer.hits} == set(ids)
    ids.append(await alice.write("pipe 5"))
    await copied(service)
    assert await points(faulty, service) == sorted(ids)
    assert set(await alice.read_ids("pipe 1", top_k=9)) == set(ids)


async def test_the_configuration_alone_moves_an_installation_there_and_back(start_service, faulty, service_embedder):
    first = await start_service(embedder=service_embedder, vector_backend="pgvector")
    alice = first.caller("alice")
    ids = [await alice.write(f"lens {n}") for n in range(5)]
    second = await start_service(derived=faulty, embedder=service_embedder, vector_backend="qdrant")
    alice = second.caller("alice")
    assert set(await alice.read_ids("lens 1", top_k=9)) == set(ids)
    await copied(second)
    assert await points(faulty, second) == sorted(ids)
    searches = faulty.searches
    assert set(await alice.read_ids("lens 1", top_k=9)) == set(ids)
    assert faulty.searches > searches
    third = await start_service(embedder=service_embedder, vector_backend="pgvector")
    alice = third.caller("alice")
    ids.append(await alice.write("lens 5"))
    assert set(await alice.read_ids("lens 1", top_k=9)) == set(ids)
    assert await third.rows("SELECT count(*) FROM memoryfs.index_outbox") == [(0,)]
    assert await third.rows("SELECT serving, feeding FROM memoryfs.index_backends") == [("pgvector", False)]


async def test_the_copy_holds_no_content(on_qdrant, faulty):
    alice = on_qdrant.caller("alice")
    item = await alice.write("secret recipe", tags=["kitchen"])
    await copied(on_qdrant)
    model = on_qdrant.embedder.model_id
    records, _ = await faulty.inner._client.scroll(faulty.inner._names[model], limit=10)
    assert [set(record.payload) for record in records] == [{"tenant", "item", "revision", "path", "acl", "tier"}]
    assert records[0].payload["item"] == item
    answer = await faulty.search(
        IndexScope(tenant="evil", principal_ids=frozenset(records[0].payload["acl"])),
        VectorQuery(
            model_id=model,
            vector=(await faulty.inner.vectors("acme", model, [item]))[item],
            limit=5,
            path_ids=None,
        ),
    )
    assert answer.hits == ()
