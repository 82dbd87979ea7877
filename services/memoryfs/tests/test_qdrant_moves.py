"""Moves between backends, drift and erasure: the operations, on real stores, while a service writes and reads."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos.memoryfs.v1 import admin_pb2, memoryfs_pb2
from memoryos_memoryfs.adapters.pg_index_outbox import PgBackendState, PgIndexOutbox
from memoryos_memoryfs.adapters.pg_truth_vectors import PgTruthVectors
from memoryos_memoryfs.errors import MigrationPhaseForbids
from memoryos_memoryfs.operations.erase_copy import erase_from_copy, find_in_copy
from memoryos_memoryfs.operations.migrate_index import BackendsDiffer, Step, run_move, take_step
from memoryos_memoryfs.operations.verify_index import Drift, verify_index
from memoryos_memoryfs.ports.index import Backend, IndexParts, Phase
from memoryos_postgres import roles
from memoryos_testing.faulty_index import FaultyIndex, deliver
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import KeptEntry, VectorEntry
from memoryos_vectors.qdrant_config import QdrantSection

pytestmark = pytest.mark.integration


class Seen:
    """A job that only notes where it was."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    async def at(self, phase: str, done: int, total: int, checkpoint=None) -> None:
        self.phases.append(phase)
        await asyncio.sleep(0)


@pytest.fixture
async def parts(database_factory, faulty, service_embedder) -> IndexParts:
    database = await database_factory(roles.MEMORYFS)
    models = IndexedModels({service_embedder.model_id: service_embedder.dimensions})
    return IndexParts(
        state=PgBackendState(database),
        outbox=PgIndexOutbox(database, QdrantSection()),
        truth=PgTruthVectors(database, models),
        models=models,
        model_id=service_embedder.model_id,
        copy=faulty,
        answers=lambda: True,
        settle_s=0.0,
    )


@pytest.fixture
async def service(start_service, faulty, service_embedder):
    """MemoryFS on pgvector, with a Qdrant that it may move to."""
    return await start_service(derived=faulty, embedder=service_embedder)


@pytest.fixture
async def on_qdrant(start_service, faulty, service_embedder):
    return await start_service(derived=faulty, embedder=service_embedder, vector_backend="qdrant")


async def drained(parts: IndexParts) -> None:
    async with asyncio.timeout(20):
        while (await parts.outbox.backlog(None)).pending_count:  # noqa: ASYNC110 - the service copies
            await asyncio.sleep(0.02)


async def verified(parts: IndexParts, *, repair: bool = False) -> Drift:
    drift = Drift()
    async for _, so_far in verify_index(parts, parts.copy, repair=repair):
        drift = so_far
    return drift


async def fill(caller, text: str, count: int) -> list[str]:
    results = await caller.write_entries([memoryfs_pb2.WriteEntry(content=f"{text} {n}") for n in range(count)])
    return [result.id for result in results]


async def test_there_and_back_while_writes_and_reads_go_on(service, parts, faulty):
    alice, mallory = service.caller("alice"), service.caller("mallory", tenant="evil")
    ids = await fill(alice, "rivet", 40)
    foreign = await fill(mallory, "rivet", 10)
    stop, seen = asyncio.Event(), Seen()

    async def write_and_read() -> None:
        while not stop.is_set():
            ids.append(await alice.write(f"rivet {len(ids)}"))
            answer = await alice.read(f"rivet {len(ids) - 1}", top_k=1)
            assert answer.hits[0].item.id == ids[-1]
            assert answer.hits[0].details.dense > 0.99
            await alice.forget(ids.pop(0))
            assert set(await alice.read_ids("rivet", top_k=200)) == set(ids)

    going_on = asyncio.create_task(write_and_read())
    with contextlib.suppress(asyncio.CancelledError):
        for step in (Step.START, None, Step.CUT_OVER, Step.ROLL_BACK, Step.CUT_OVER, Step.FINISH):
            if step is None:
                result = await run_move(parts, seen)
                assert (result.drift.found, result.recall) == (0, 1.0)
            else:
                await take_step(parts, parts.state, step, Backend.QDRANT)
            searches = faulty.searches
            await alice.read("rivet", top_k=1)
            serving = (await parts.state.get()).serving
            assert (faulty.searches > searches) is (serving is Backend.QDRANT)
    assert {"backfill", "verify"} >= set(seen.phases)
    state = await parts.state.get()
    assert (state.serving, state.feeding, state.phase) == (Backend.QDRANT, True, Phase.NONE)
    for step in (Step.START, None, Step.CUT_OVER, Step.FINISH):
        await (run_move(parts, seen) if step is None else take_step(parts, parts.state, step, Backend.PGVECTOR))
    stop.set()
    await going_on
    state = await parts.state.get()
    assert (state.serving, state.feeding, state.phase) == (Backend.PGVECTOR, False, Phase.NONE)
    assert set(await alice.read_ids("rivet", top_k=200)) == set(ids)
    assert set(await mallory.read_ids("rivet", top_k=200)) == set(foreign)


async def test_both_backends_give_the_same_answers(service, parts):
    rng = random.Random(11)
    users = [service.caller(name) for name in ("alice", "bob", "carol")]
    words = ["pump", "valve", "seal", "油泵", "阀门", "WR-1024", "leaks", "is new", "was changed", "停机"]
    for n in range(90):
        readers = rng.sample(["user:alice", "user:bob", "user:carol"], rng.randint(0, 2))
        place = f"{users[0].path}/{rng.choice(['a', 'b', 'a/deep'])}"
        text = " ".join(rng.sample(words, 3)) + f" {n}"
        await users[n % 3].write(text, path=place, readers=readers)
    await take_step(parts, parts.state, Step.START, Backend.QDRANT)
    await run_move(parts, Seen())
    asked = [
        (
            user,
            " ".join(rng.sample(words, 2)),
            f"{user.path}{rng.choice(['', '/a', '/b', '/none'])}",
            rng.choice([1, 5, 50]),
        )
        for user in users
        for _ in range(15)
    ]

    async def answers() -> list:
        found = []
        for user, text, path, top_k in asked:
            answer = await user.read(text, path=path, top_k=top_k)
            assert not answer.degradations
            found.append({hit.item.id: hit.score for hit in answer.hits})
        return found

    by_pgvector = await answers()
    await take_step(parts, parts.state, Step.CUT_OVER, Backend.QDRANT)
    by_qdrant = await answers()
    assert sum(map(len, by_pgvector)) > 100
    for one, other in zip(by_pgvector, by_qdrant, strict=True):
        assert list(one.values()) == pytest.approx(list(other.values()), abs=1e-3)
        # Near ties may change places, or leave at the end of the list.
        edge = min(one.values(), default=0.0) + 1e-3
        assert {item_id for item_id, score in one.items() if score > edge} <= set(other)


async def test_a_job_whose_process_died_at_its_end_or_that_runs_twice_ends_well(service, parts):
    await fill(service.caller("alice"), "rivet", 10)
    await take_step(parts, parts.state, Step.START, Backend.QDRANT)
    results = await asyncio.gather(*(run_move(parts, Seen()) for _ in range(3)))
    assert [(result.drift.found, result.recall) for result in results] == [(0, 1.0)] * 3
    assert (await run_move(parts, Seen())).recall == 1.0
    assert (await parts.state.get()).phase is Phase.READY
    await take_step(parts, parts.state, Step.CUT_OVER, Backend.QDRANT)
    assert (await run_move(parts, Seen())).recall == 1.0
    assert (await parts.state.get()).phase is Phase.CUT_OVER
    await take_step(parts, parts.state, Step.FINISH, Backend.QDRANT)
    with pytest.raises(MigrationPhaseForbids):
        await run_move(parts, Seen())


async def test_steps_out_of_time_are_refused(service, parts):
    for step in (Step.CUT_OVER, Step.ROLL_BACK, Step.FINISH):
        with pytest.raises(MigrationPhaseForbids):
            await take_step(parts, parts.state, step, Backend.QDRANT)
    with pytest.raises(MigrationPhaseForbids):
        await take_step(parts, parts.state, Step.START, Backend.PGVECTOR)  # it serves already
    await take_step(parts, parts.state, Step.START, Backend.QDRANT)
    for step, to in ((Step.START, Backend.QDRANT), (Step.CUT_OVER, Backend.QDRANT), (Step.ROLL_BACK, Backend.PGVECTOR)):
        with pytest.raises(MigrationPhaseForbids):
            await take_step(parts, parts.state, step, to)
    state = await take_step(parts, parts.state, Step.ROLL_BACK, Backend.QDRANT)
    assert (state.feeding, state.phase) == (False, Phase.NONE)
    assert (await parts.outbox.backlog(None)).pending_count == 0


async def test_backends_that_do_not_agree_are_not_cut_over(service, parts, faulty):
    alice = service.caller("alice")
    ids = await fill(alice, "anvil", 5)
    await take_step(parts, parts.state, Step.START, Backend.QDRANT)
    faulty.poison = frozenset(ids[:1])  # refused until it is given up

    async def run() -> None:
        await run_move(parts, Seen())

    async with asyncio.timeout(60):
        with pytest.raises(BackendsDiffer) as refused:
            await run()
    assert refused.value.metadata["missing"] == "1"
    with pytest.raises(MigrationPhaseForbids):
        await take_step(parts, parts.state, Step.CUT_OVER, Backend.QDRANT)
    assert (await alice.read("anvil 0", top_k=1)).hits[0].item.id == ids[0]


async def test_every_kind_of_drift_is_found_and_mended(on_qdrant, parts, faulty):
    alice, model = on_qdrant.caller("alice"), parts.model_id
    ids = await fill(alice, "spring", 8)
    await drained(parts)
    assert (await verified(parts)).counts() == Drift(compared=8).counts()
    good = {entry.item_id: entry for entry in await parts.truth.page("acme", model, "", 10)}

    def but(name: str, **changes) -> VectorEntry:
        return replace(good[name], **changes)

    inner = faulty.inner
    await inner.delete("acme", ids[:4])
    await inner.upsert("acme", model, [but(ids[1], acl=(99,)), but(ids[2], vector=good[ids[3]].vector)])
    await inner.upsert("acme", model, [but(ids[3], revision=7), but(ids[4], item_id="mem_orphan")])
    await inner.upsert("gone", model, [but(ids[4], item_id="mem_orphan")])
    drift = await verified(parts, repair=True)
    assert drift.counts() == Drift(compared=8, missing=1, stale=1, wrong=2, orphaned=2, repaired=6).counts()
    await drained(parts)
    assert (await verified(parts)).counts() == Drift(compared=8).counts()
    assert set(await inner.counts(model)) == {"acme"}
    assert set(await alice.read_ids("spring", top_k=20)) == set(ids)


async def test_what_waits_is_no_drift(on_qdrant, parts, faulty):
    alice = on_qdrant.caller("alice")
    ids = await fill(alice, "screw", 3)
    await drained(parts)
    faulty.hold_back = True
    await alice.update(ids[0], content="screw of another kind")
    await alice.forget(ids[1])
    assert (await verified(parts)).found == 0
    faulty.hold_back = False
    await drained(parts)


class Busy(FaultyIndex):
    """A copy in which something is changed, and copied, right before each of the next answers to `kept`."""

    changes: list[Callable[[], Awaitable[None]]]

    async def kept(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, KeptEntry]:
        if self.changes:
            await self.changes.pop()()
        return await super().kept(tenant, model_id, item_ids)


async def test_what_changes_while_it_is_compared_is_no_drift(on_qdrant, parts, faulty):
    alice = on_qdrant.caller("alice")
    ids = await fill(alice, "screw", 3)
    await drained(parts)

    async def change() -> None:
        await alice.update(ids[0], content=f"screw, changed {len(busy.changes)}")
        await drained(parts)

    busy = Busy(faulty.inner)
    busy.changes = [change, change]
    assert (await verified(replace(parts, copy=busy))).found == 0
    assert busy.changes == []


async def test_erased_items_and_tenants_leave_and_a_late_write_revives_nothing(on_qdrant, parts, faulty):
    alice, mallory = on_qdrant.caller("alice"), on_qdrant.caller("mallory", tenant="evil")
    ids, foreign = await fill(alice, "nut", 5), await fill(mallory, "nut", 3)
    await drained(parts)
    faulty.hold_back = True
    await alice.update(ids[0], content="nut, changed")
    async with asyncio.timeout(20):
        while not faulty.late:  # noqa: ASYNC110 - the service under test sends it
            await asyncio.sleep(0.02)
    # What the erasure does to the truth; the outbox names it as any change.
    await on_qdrant.rows("DELETE FROM memoryfs.item_vectors WHERE tenant = 'acme' AND item_id = ANY (%s)", ids[:3])
    faulty.hold_back = False
    assert await erase_from_copy(parts, "acme", ids[:3]) + await find_in_copy(parts, "acme", ids[:3]) <= 3
    await drained(parts)
    assert await find_in_copy(parts, "acme", ids[:3]) == 0
    await deliver(faulty)
    assert await find_in_copy(parts, "acme", ids[:3]) == 1
    assert await erase_from_copy(parts, "acme", ids[:3]) == 1
    assert await find_in_copy(parts, "acme", None) == 2
    await on_qdrant.rows("DELETE FROM memoryfs.item_vectors WHERE tenant = 'acme'")
    await erase_from_copy(parts, "acme", None)
    assert await find_in_copy(parts, "acme", None) == 0
    assert await find_in_copy(parts, "evil", None) == len(foreign)


async def test_a_purge_ends_where_the_copy_was_never_made(start_service, faulty, service_embedder):
    service = await start_service(derived=faulty, embedder=service_embedder, qdrant={"write_timeout_s": 0.5})
    alice = service.caller("alice", roles=frozenset({"user"}))
    ids = await fill(alice, "chisel", 3)
    assert not await faulty.inner.exists()
    job = (await alice.call("Purge", admin_pb2.PurgeRequest(request_id="p-1", ids=ids, path=alice.path))).job
    watched = jobs_pb2_grpc.JobsStub(service.channel).WatchJob(
        jobs_pb2.WatchJobRequest(id=job.id), metadata=alice._metadata, timeout=30
    )
    *_, last = [message.job async for message in watched]
    assert last.state == jobs_pb2.JOB_STATE_SUCCEEDED
    answer = await alice.call("GetReceipt", admin_pb2.GetReceiptRequest(job_id=job.id))
    assert b'{"found":0,"place":"qdrant.points","removed":0}' in answer.receipt_json


async def test_a_copy_that_is_no_longer_fed_is_dropped(on_qdrant, start_service, parts, faulty, service_embedder):
    alice = on_qdrant.caller("alice")
    await fill(alice, "hinge", 3)
    await drained(parts)
    await start_service(
        derived=faulty, embedder=service_embedder, vector_backend="pgvector", qdrant={"copy_check_s": 0.1}
    )
    async with asyncio.timeout(30):
        while await faulty.inner.exists():  # noqa: ASYNC110 - the service drops it
            await asyncio.sleep(0.05)
