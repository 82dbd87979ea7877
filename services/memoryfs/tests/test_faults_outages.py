"""Kinds of fault in which a part is wrong, late, full, elsewhere in time, or there twice.

- A model that answers in the wrong length, in nonsense or too late takes writes down with it, or spoils the index.
- An error of the database inside a batch of background work is taken for its end.
- Two processes with one path overwrite each other; their clocks differ by hours.
- What is forgotten or moved is still found by one of the ways to it.
- A deleted tree of several levels leaves something behind that is found.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import timedelta

import grpc
import numpy as np
import pytest
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, namespace_pb2, snapshots_pb2
from memoryos_core.clock import SystemClock
from memoryos_grpc.status import remote_error
from memoryos_models.ports import Vectors
from memoryos_testing.hash_embedder import HashEmbedder
from memoryos_testing.memory_invariants import broken_invariants
from memoryos_testing.postgres import admin_execute

from .conftest import request_id
from .test_embedder_outage import eventually
from .test_transfer import export, send

pytestmark = pytest.mark.integration
SOME_SECONDS = 0.001
"""In hours: what clocks may differ by without tokens being refused."""
PENDING, DONE = item_pb2.EMBED_STATE_PENDING, item_pb2.EMBED_STATE_DONE


class OddEmbedder:
    """The hash embedder, which answers something else as long as a test says so."""

    def __init__(self) -> None:
        self.inner = HashEmbedder(dimensions=64)
        self.odd = ""

    @property
    def model_id(self) -> str:
        return self.inner.model_id

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        rows = np.array(await self.inner.embed(texts, deadline_s=deadline_s))
        match self.odd:
            case "shorter":
                return rows[:, :32]
            case "longer":
                return np.hstack([rows, rows])
            case "fewer":
                return rows[:-1]
            case "more":
                return np.vstack([rows, rows])
            case "nan":
                return np.full_like(rows, np.nan)
            case "zero":
                return np.zeros_like(rows)
            case "huge":
                return rows * np.float32(1e30)
            case "late":
                await asyncio.sleep(60)  # never ends in the time of a call
        return rows

    async def close(self) -> None:
        return None


@pytest.mark.parametrize("odd", ["shorter", "longer", "fewer", "more", "nan", "zero", "huge", "late"])
async def test_a_model_that_answers_nonsense_is_an_outage_and_nothing_of_it_is_kept(start_service, odd):
    embedder = OddEmbedder()
    service = await start_service(embedder=embedder, embed_timeout_s=0.3, embed_retry_s=0.01, embed_attempts_max=100)
    alice = service.caller("alice")
    before = await alice.write("zebra before")
    embedder.odd = odd
    item_id = await alice.write("zebra crossing")
    await alice.update(before, content="zebra changed")
    assert (await alice.get(item_id)).embed_state == PENDING
    answer = await alice.read("zebra", top_k=10)
    assert {hit.item.id for hit in answer.hits} == {before, item_id}
    assert all(0 <= hit.score <= 1 for hit in answer.hits)
    embedder.odd = ""

    async def embedded() -> bool:
        return all([(await alice.get(each)).embed_state == DONE for each in (before, item_id)])

    await eventually(embedded)
    assert (await alice.read("zebra crossing", top_k=1)).hits[0].details.dense > 0.9
    assert await broken_invariants(service.database.admin_dsn) == {}


async def test_an_error_inside_the_batch_of_the_worker_is_not_its_end(start_service):
    """The database gives up the first three transactions that bring vectors, as it may at any time."""
    service = await start_service(embed_retry_s=0.01)
    alice = service.caller("alice")
    service.embedder.down = True
    ids = [await alice.write(f"waits for its vector {n}") for n in range(6)]
    await admin_execute(
        service.database,
        """
        CREATE SEQUENCE public.turns; GRANT USAGE ON SEQUENCE public.turns TO PUBLIC;
        CREATE FUNCTION public.give_up() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('public.turns') <= 3 THEN
                RAISE EXCEPTION 'given up' USING ERRCODE = '40001';
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER give_up AFTER INSERT ON memoryfs.item_vectors
            FOR EACH STATEMENT EXECUTE FUNCTION public.give_up();
        """,
    )
    service.embedder.down = False

    async def embedded() -> bool:
        return all([(await alice.get(item_id)).embed_state == DONE for item_id in ids])

    await eventually(embedded)
    assert await service.rows("SELECT last_value > 3 FROM public.turns") == [(True,)]
    assert await service.rows("SELECT 1 FROM memoryfs.item_embeds") == []
    assert await broken_invariants(service.database.admin_dsn) == {}


class SkewedClock(SystemClock):
    """The machine's clock, some hours off."""

    def __init__(self, hours: float) -> None:
        self._off = timedelta(hours=hours)

    def now(self):
        return super().now() + self._off


async def test_of_two_processes_with_one_etag_one_wins(start_service):
    one, two = (await start_service()).caller("alice"), (await start_service()).caller("alice")
    item_id = await one.write("base")
    for turn in range(5):
        etag = (await two.get(item_id)).etag
        answers = await asyncio.gather(
            *(caller.update(item_id, if_match=etag, content=f"{turn} {n}") for n, caller in enumerate((one, two) * 3)),
            return_exceptions=True,
        )
        lost = [remote_error(answer).reason for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
        assert lost == ["ETAG_MISMATCH"] * 5
    assert (await one.get(item_id)).revision == 6


async def test_processes_whose_clocks_differ_by_hours_keep_one_history(start_service):
    ahead = (await start_service(clock=SkewedClock(+7))).caller("alice", roles=frozenset({"user"}))
    service = await start_service(clock=SkewedClock(-5))
    behind = service.caller("alice", roles=frozenset({"user"}))
    # Tokens are of this machine's hour; services of other hours do not take them.
    with pytest.raises(grpc.aio.AioRpcError) as early:
        await behind.write("too early")
    assert early.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(grpc.aio.AioRpcError) as late:
        await ahead.write("too late")
    assert late.value.code() is grpc.StatusCode.UNAUTHENTICATED
    fast = (await start_service(clock=SkewedClock(+SOME_SECONDS))).caller("alice", roles=frozenset({"user"}))
    slow = (await start_service(clock=SkewedClock(-SOME_SECONDS))).caller("alice", roles=frozenset({"user"}))
    item_id = await fast.write("said by the fast one")
    assert await slow.read_ids("fast", top_k=1) == [item_id]
    request = snapshots_pb2.CreateSnapshotRequest(path=slow.path, request_id=request_id())
    point = (await slow.call("CreateSnapshot", request)).snapshot.id
    for n, caller in enumerate((slow, fast, slow)):
        await caller.update(item_id, content=f"change {n}")
    await slow.forget(item_id)
    await fast.restore(item_id)
    changes = (await slow.call("History", lifecycle_pb2.HistoryRequest(id=item_id))).changes
    assert [change.revision for change in changes if change.HasField("item")] == [4, 3, 2, 1]
    back = snapshots_pb2.RollbackRequest(path=fast.path, snapshot_id=point, request_id=request_id())
    await fast.call("Rollback", back)
    assert (await slow.get(item_id)).content == "said by the fast one"
    assert await broken_invariants(service.database.admin_dsn) == {}


async def test_a_forgotten_tree_of_three_levels_is_found_by_no_way(service):
    alice = service.caller("alice", roles=frozenset({"user"}))
    top = f"{alice.path}/tree"
    paths = [top, f"{top}/branch", f"{top}/branch/叶"]
    vector = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)
    ids = []
    for n, path in enumerate(paths):
        entries = [memoryfs_pb2.WriteEntry(content=f"xylophone {n} {k}", embedding=vector) for k in range(3)]
        ids += [result.id for result in await alice.write_entries(entries, path=path)]
    request = lifecycle_pb2.MergeRequest(path=top, ids=ids[:2], content="xylophone summary", request_id=request_id())
    summary = (await alice.call("Merge", request)).item.id
    kept = await alice.write("xylophone elsewhere", embedding=vector)
    before = (await alice.get(kept)).create_time
    await alice.forget(*ids, path=top)
    for path in (alice.path, *paths):
        known = [kept] if path == alice.path else []
        assert await alice.read_ids("xylophone", path=path, top_k=50) == known
        assert await alice.read_ids("", path=path, top_k=50) == known
        assert await alice.read_ids("", path=path, embedding=vector, include_cold=True) == known
        assert await alice.read_ids("xylophone", path=path, as_of=before) in ([], known)
        assert await alice.list_ids(path=path) == known
        usage = (await alice.call("Stat", namespace_pb2.StatRequest(path=path))).usage
        assert (usage.active_count, usage.superseded_count) == (len(known), 0)
        lines = bytes((await export(alice, path=path)).files["items.jsonl"])
        assert not [item_id for item_id in (*ids, summary) if item_id.encode() in lines]
    request = lifecycle_pb2.LineageRequest(id=kept)
    assert not (await alice.call("Lineage", request)).edges


async def test_every_id_that_a_write_gives_works_wherever_an_id_is_asked_for(service):
    alice = service.caller("alice", roles=frozenset({"user"}))
    results = await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"text {n} 文") for n in range(9)])
    for result in results:
        assert (await alice.get(result.id)).id == result.id
        assert (await alice.call("History", lifecycle_pb2.HistoryRequest(id=result.id))).changes
        assert (await alice.call("Lineage", lifecycle_pb2.LineageRequest(id=result.id))).items
        await alice.update(result.id, content="changed")
        revert = lifecycle_pb2.RevertRequest(path=alice.path, id=result.id, revision=1, request_id=request_id())
        await alice.call("Revert", revert)
        assert await alice.forget(result.id) == 1
        assert await alice.restore(result.id) == 1


async def test_an_export_of_before_a_migration_goes_in_after_it_and_comes_out_the_same(service):
    alice = service.caller("alice", roles=frozenset({"user"}))
    there = service.caller("alice", tenant="evil", roles=frozenset({"user"}))
    ids = [
        await alice.write(f"text {n}\u2028 文", attributes_json=b'{"n":null,"big":9007199254740993}') for n in range(4)
    ]
    await alice.update(ids[0], content="changed")
    before = await export(alice, with_vectors=True, with_history=True)
    for table in ("items", "item_revisions"):
        await service.rows(f"ALTER TABLE memoryfs.{table} ADD COLUMN later int4 NOT NULL DEFAULT 7")
    await send(there, before)
    after = await export(there, with_vectors=True, with_history=True)
    moved = bytes(before.files["items.jsonl"]).replace(b"/tenants/acme/", b"/tenants/evil/")
    lines = sorted(moved.splitlines()), sorted(bytes(after.files["items.jsonl"]).splitlines())
    assert lines[0] == lines[1]
    assert hashlib.sha256(b"".join(lines[0])).digest() == hashlib.sha256(b"".join(lines[1])).digest()
