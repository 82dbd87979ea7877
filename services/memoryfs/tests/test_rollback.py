"""Rollback gives back exactly what was, all or nothing, and revives nothing that is erased (DESIGN 3.4; FAULTS)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, namespace_pb2, snapshots_pb2
from memoryos.type.v1 import common_pb2
from memoryos_memoryfs.adapters.pg_tiers import move_tier
from memoryos_memoryfs.domain.items import Tier
from memoryos_postgres import Database, roles

from .conftest import BACKEND

ABORTED = grpc.StatusCode.ABORTED
DENIED = grpc.StatusCode.PERMISSION_DENIED
NOT_FOUND = grpc.StatusCode.NOT_FOUND
_WAITING = """
SELECT 1 FROM memoryfs.index_outbox UNION ALL SELECT 1 FROM memoryfs.index_backends WHERE serving <> 'qdrant' LIMIT 1
"""
_numbers = iter(range(1, 1_000_000))


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def snapshot(caller, *, path="", channel="", title="") -> str:
    request = snapshots_pb2.CreateSnapshotRequest(
        path=path or caller.path, channel=channel, title=title, request_id=f"snap-{next(_numbers)}"
    )
    return (await caller.call("CreateSnapshot", request)).snapshot.id


async def rollback(caller, snapshot_id, *, path="", request="", **fields):
    return await caller.call(
        "Rollback",
        snapshots_pb2.RollbackRequest(
            path=path or caller.path, snapshot_id=snapshot_id, request_id=request or f"roll-{next(_numbers)}", **fields
        ),
    )


def counts(answer) -> tuple[int, int, int, int]:
    return (answer.reverted_count, answer.forgotten_count, answer.restored_count, answer.erased_count)


def plain(item: item_pb2.Item) -> item_pb2.Item:
    """Give an item without what a new revision changes by being one."""
    copy = item_pb2.Item()
    copy.CopyFrom(item)
    for name in ("revision", "etag", "update_time", "access"):
        copy.ClearField(name)
    return copy


async def picture(service, caller, queries=("alpha", "beta gamma", "delta", "客户 计划")):
    """Give everything that a reader gets, and the bytes of every index row.

    The copy rounds otherwise than PostgreSQL, which answers for what the copy does not have yet: it has all first.
    """
    async with asyncio.timeout(20):
        while BACKEND == "qdrant" and await service.rows(_WAITING):  # noqa: ASYNC110 - the service copies
            await asyncio.sleep(0.02)
    answers = []
    for query in ("", *queries):
        response = await caller.read(query, top_k=50)
        hits = response.hits
        answers.append([(hit.item.id, round(hit.score, 9), plain(hit.item).SerializeToString()) for hit in hits])
    listed = {
        item_pb2.State.Name(state): {
            item.id: plain(item).SerializeToString() for item in (await caller.list(page_size=200, state=state)).items
        }
        for state in (item_pb2.STATE_ACTIVE, item_pb2.STATE_CANDIDATE, item_pb2.STATE_SUPERSEDED)
    }
    vectors = await service.rows(
        "SELECT item_id, model_id, path_id, acl, tier, vec::text FROM memoryfs.item_vectors ORDER BY 1, 2"
    )
    columns = "item_id, path_id, acl, create_time, expire_time, hashes, words, length"
    words = await service.rows(
        f"SELECT 'hot', {columns} FROM memoryfs.item_tokens"
        f" UNION ALL SELECT 'cold', {columns} FROM memoryfs.cold_tokens ORDER BY 2"
    )
    return answers, listed, vectors, words


async def written(caller) -> list[str]:
    entries = [
        memoryfs_pb2.WriteEntry(content="alpha: the plan for Q3", tags=["a"], importance=0.9),
        memoryfs_pb2.WriteEntry(content="beta gamma in Shanghai", readers=["user:bob"], user="u7"),
        memoryfs_pb2.WriteEntry(content="delta is a number", attributes_json=b'{"n":1}', pinned=True),
        memoryfs_pb2.WriteEntry(content="客户 A 确认了 Q3 交付计划", event_key={"subject": "A", "scope": "华东区"}),
        memoryfs_pb2.WriteEntry(content="not so sure", confidence=0.3),
        memoryfs_pb2.WriteEntry(content="open to a group", readers=["group:sales"], sensitivity=2),
    ]
    return [result.id for result in await caller.write_entries(entries)]


@pytest.fixture
def alice(service):
    return service.caller("alice", roles=frozenset({"user"}), clearance=5)


@pytest.fixture
def admin(service):
    return service.caller("root", roles=frozenset({"tenant-admin"}))


async def test_three_added_one_deleted_one_edited_and_rolled_back_is_exactly_what_was(service, alice):
    ids = await written(alice)
    before = await picture(service, alice)
    point = await snapshot(alice)
    for n in range(3):
        await alice.write(f"alpha added since {n}")
    await alice.forget(ids[0])
    await alice.update(ids[1], content="beta moved to Rome", tags=["x"], readers=["user:bob", "user:carol"])
    await alice.update(ids[1], confidence=0.9)
    assert await picture(service, alice) != before

    # bob would see less, carol too: nothing is widened, so the owner may
    answer = await rollback(alice, point)
    assert counts(answer) == (1, 3, 1, 0)
    assert await picture(service, alice) == before
    assert (await alice.get(ids[1])).revision == 4
    causes = await service.rows("SELECT cause FROM memoryfs.items WHERE id = %s", ids[1])
    assert causes == [(12,)]
    assert service.embedder.calls > 0


async def test_no_model_is_needed_to_roll_back(service, alice):
    ids = await written(alice)
    before = await picture(service, alice)
    point = await snapshot(alice)
    await alice.update(ids[0], content="other words")
    service.embedder.down = True
    await rollback(alice, point)
    service.embedder.down = False
    assert await picture(service, alice) == before


async def test_the_rollback_is_undone_by_its_own_snapshot(service, alice):
    ids = await written(alice)
    point = await snapshot(alice)
    await alice.write("alpha added since")
    await alice.forget(ids[2])
    await alice.update(ids[0], content="alpha rewritten")
    changed = await picture(service, alice)
    answer = await rollback(alice, point)
    assert await picture(service, alice) != changed
    undone = await rollback(alice, answer.undo_snapshot_id)
    assert counts(undone) == (1, 1, 1, 0)
    assert await picture(service, alice) == changed


async def test_candidates_and_what_was_forgotten_then_are_what_they_were(service, alice):
    ids = await written(alice)
    await alice.forget(ids[0], ids[4])
    before = await picture(service, alice)
    point = await snapshot(alice)
    await alice.restore(ids[0], ids[4])
    await alice.update(ids[0], content="alpha, changed and alive")
    await alice.update(ids[2], confidence=0.1)
    answer = await rollback(alice, point)
    assert counts(answer) == (1, 2, 0, 0)
    assert await picture(service, alice) == before
    assert set(await alice.list_ids(state=item_pb2.STATE_FORGOTTEN)) == {ids[0], ids[4]}
    await alice.restore(ids[0])
    assert (await alice.get(ids[0])).content == "alpha: the plan for Q3"


async def test_a_preview_says_what_would_change_and_keeps_nothing(service, alice):
    ids = await written(alice)
    point = await snapshot(alice)
    await alice.update(ids[0], content="alpha rewritten")
    await alice.write("new")
    now = await picture(service, alice)
    rows = await service.rows("SELECT count(*) FROM memoryfs.snapshots")
    answer = await rollback(alice, point, preview=True, request="r-1")
    assert (counts(answer), answer.undo_snapshot_id) == ((1, 1, 0, 0), "")
    assert await picture(service, alice) == now
    assert await service.rows("SELECT count(*) FROM memoryfs.snapshots") == rows
    assert counts(await rollback(alice, point, request="r-1")) == (1, 1, 0, 0)


async def test_a_retry_gives_the_same_answer_and_rolls_nothing_back_again(service, alice):
    await written(alice)
    point = await snapshot(alice)
    await alice.write("new")
    first = await rollback(alice, point, request="r-1")
    kept = await alice.write("written after the rollback")
    assert await rollback(alice, point, request="r-1") == first
    assert (await alice.get(kept)).content == "written after the rollback"
    assert await code_of(rollback(alice, point, request="r-1", preview=True)) is grpc.StatusCode.OK
    assert await code_of(rollback(alice, point, request="r-1", actor="user:alice")) is ABORTED


async def test_only_what_one_actor_changed_and_nobody_built_on(service, alice):
    agent = service.caller("alice", chain=("scribe",))
    ids = await written(alice)
    point = await snapshot(alice)
    added = [await agent.write(f"alpha by the agent {n}") for n in range(3)]
    await agent.update(ids[0], content="alpha, changed by the agent")
    await agent.update(ids[2], content="delta, changed by the agent")
    await alice.update(ids[2], content="delta, and then by alice")
    await alice.update(ids[3], content="changed by alice")
    await agent.update(ids[3], content="and then by the agent")
    mine = await alice.write("alpha by alice")
    answer = await rollback(alice, point, actor="agent:alice/scribe")
    assert counts(answer) == (2, 3, 0, 0)
    found = {item.id: item.content for item in (await alice.list(page_size=100)).items}
    assert found[ids[0]] == "alpha: the plan for Q3"
    assert found[ids[2]] == "delta, and then by alice"
    assert found[ids[3]] == "changed by alice"
    assert mine in found
    assert not set(added) & set(found)


async def test_only_what_came_from_a_session_or_changed_in_a_window(service, alice):
    ids = await written(alice)
    point = await snapshot(alice)
    of_session = await alice.write("alpha of s1", source={"session_id": "s1"})
    other = await alice.write("alpha of s2", source={"session_id": "s2"})
    await rollback(alice, point, source_session_id="s1")
    assert of_session not in await alice.list_ids()
    assert other in await alice.list_ids()
    middle = (await alice.get(other)).create_time
    await alice.update(ids[0], content="alpha late")
    late = (await alice.get(ids[0])).update_time
    window = common_pb2.TimeRange(start=late)
    assert counts(await rollback(alice, point, changed=window)) == (1, 0, 0, 0)
    assert other in await alice.list_ids()
    window = common_pb2.TimeRange(start=middle, end=late)
    # what the first rollback forgot is one of the changes of that window
    assert counts(await rollback(alice, point, changed=window)) == (0, 1, 1, 0)


async def test_nobody_widens_an_item_by_it_but_a_tenant_admin(service, alice, admin):
    item_id = await alice.write("alpha for many", readers=["user:bob", "group:sales"])
    point = await snapshot(alice)
    whole = await snapshot(admin)
    await alice.update(item_id, readers=["user:bob"])
    assert await code_of(rollback(alice, point)) is DENIED
    assert list((await alice.get(item_id)).readers) == ["user:bob"]
    await alice.update(item_id, readers=["user:bob", "group:sales"], sensitivity=3)
    assert await code_of(rollback(alice, point)) is DENIED
    assert counts(await rollback(admin, whole)) == (1, 0, 0, 0)
    assert list((await alice.get(item_id)).readers) == ["user:bob", "group:sales"]
    assert await code_of(admin.get(item_id)) is NOT_FOUND


async def test_a_user_rolls_back_what_is_theirs_and_a_tenant_admin_everything(service, alice, bob, admin):
    bob = service.caller("bob", roles=frozenset({"user"}))
    mine, shared = await alice.write("alpha of alice"), await bob.write("alpha of bob", readers=["user:alice"])
    point, whole = await snapshot(alice), await snapshot(admin)
    await alice.update(mine, content="changed")
    await bob.update(shared, content="changed, too")
    fresh = await bob.write("new, of bob", readers=["user:alice"])
    assert counts(await rollback(alice, point)) == (1, 0, 0, 0)
    assert (await bob.get(shared)).content == "changed, too"
    assert counts(await rollback(admin, whole)) == (2, 1, 0, 0)
    assert (await bob.get(shared)).content == "alpha of bob"
    assert await code_of(alice.get(fresh)) is NOT_FOUND
    assert await admin.list_ids() == []


async def test_snapshots_of_others_and_of_other_places_cannot_be_rolled_back_to(service, alice, admin):
    bob = service.caller("bob", roles=frozenset({"user"}))
    below = await snapshot(alice, path=f"{alice.path}/below")
    assert await code_of(rollback(alice, below)) is NOT_FOUND
    assert await code_of(rollback(bob, await snapshot(alice))) is NOT_FOUND
    assert await code_of(rollback(alice, "snap_01ARZ3NDEKTSV4RRFFQ69G5FAV")) is NOT_FOUND
    agent = service.caller("alice", roles=frozenset({"agent"}))
    assert await code_of(rollback(agent, below, path=f"{alice.path}/below")) is DENIED
    evil = service.caller("mallory", tenant="evil", roles=frozenset({"tenant-admin"}))
    assert await code_of(rollback(evil, below, path=f"{evil.path}/below")) is NOT_FOUND


async def test_what_is_written_elsewhere_meanwhile_is_not_touched(service, alice):
    side = f"{alice.path}/side"
    point = await snapshot(alice, path=f"{alice.path}/main")
    await alice.write("alpha", path=f"{alice.path}/main")
    other = await alice.write("alpha", path=side)
    like = await alice.write("alpha", path=f"{alice.path}/main2")
    await rollback(alice, point, path=f"{alice.path}/main")
    assert set(await alice.list_ids()) == {other, like}


async def test_erased_items_stay_erased_and_are_counted(service, alice):
    ids = await written(alice)
    point = await snapshot(alice)
    await alice.forget(ids[0])
    async with reaching_all(service) as tx:
        for table, name in (("items", "id"), ("item_changes", "item_id"), ("parked_vectors", "item_id")):
            await tx.execute(f"DELETE FROM memoryfs.{table} WHERE tenant = 'acme' AND {name} = %s", (ids[0],))
    await alice.write("made since, and no survivor")
    assert counts(await rollback(alice, point)) == (0, 1, 0, 1)
    assert await code_of(alice.get(ids[0])) is NOT_FOUND


@asynccontextmanager
async def reaching_all(service):
    """Give a transaction as jobs without a reader have it: erasing, tiers."""
    async with Database(service.database.section, roles.MEMORYFS) as database, database.upkeep("acme") as tx:
        yield tx


async def test_tiers_are_what_they_were(service, alice):
    ids = await written(alice)
    await cooled(service, ids[1])
    before = await picture(service, alice)
    point = await snapshot(alice)
    await cooled(service, ids[0], ids[2])
    await alice.update(ids[1], content="beta, another text")
    await alice.forget(ids[2])
    assert await picture(service, alice) != before
    await rollback(alice, point)
    assert await picture(service, alice) == before
    history = await alice.call("History", lifecycle_pb2.HistoryRequest(id=ids[0]))
    assert [change.revision for change in history.changes] == [1, 1, 1]


async def cooled(service, *ids: str) -> None:
    """Make items cold, as the upkeep of the lifecycle does."""
    async with reaching_all(service) as tx:
        assert await move_tier(tx, "acme", ids, Tier.COLD) == len(ids)


async def merged(caller, *ids: str, content: str, path="") -> str:
    request = lifecycle_pb2.MergeRequest(
        path=path or caller.path, ids=ids, content=content, request_id=f"merge-{next(_numbers)}"
    )
    return (await caller.call("Merge", request)).item.id


async def test_a_merge_is_undone_and_what_was_made_before_comes_back_with_its_sources(service, alice):
    ids = await written(alice)
    low = await merged(alice, ids[0], ids[1], content="alpha and beta")
    before = await picture(service, alice)
    point = await snapshot(alice)
    await merged(alice, low, ids[2], content="alpha, beta and delta")
    await alice.forget(ids[0])
    assert set(await alice.list_ids()) == {*ids[1:4], ids[5]}
    assert counts(await rollback(alice, point)) == (2, 0, 2, 0)  # the newest one had gone with its source
    assert await picture(service, alice) == before


async def test_what_was_made_from_an_erased_item_stays_gone(service, alice):
    ids = await written(alice)
    low = await merged(alice, ids[0], ids[1], content="alpha and beta")
    point = await snapshot(alice)
    await alice.forget(ids[0])
    async with reaching_all(service) as tx:
        for table, name in (("items", "id"), ("item_changes", "item_id"), ("parked_vectors", "item_id")):
            await tx.execute(f"DELETE FROM memoryfs.{table} WHERE tenant = 'acme' AND {name} = %s", (ids[0],))
    assert counts(await rollback(alice, point)) == (1, 0, 0, 1)
    assert await code_of(alice.get(low)) is NOT_FOUND
    assert ids[1] in await alice.list_ids(), "nothing stands for it now"
    assert await code_of(alice.restore(low)) is grpc.StatusCode.FAILED_PRECONDITION


async def test_what_was_made_elsewhere_follows_what_is_rolled_back(alice):
    place = f"{alice.path}/place"
    kept = await alice.write("alpha, kept", path=place)
    point = await snapshot(alice, path=place)
    fresh = await alice.write("alpha, new", path=place)
    await alice.update(kept, path=place, content="alpha, changed")
    gone = await merged(alice, fresh, await alice.write("another"), content="made of what is new")
    flagged = await merged(alice, kept, await alice.write("one more"), content="made of what is changed")
    await rollback(alice, point, path=place)
    assert await code_of(alice.get(gone)) is NOT_FOUND
    item = await alice.get(flagged)
    assert (item.content, list(item.flags)) == ("made of what is changed", [item_pb2.ITEM_FLAG_SOURCE_CHANGED])


async def test_more_than_the_limit_is_refused_with_its_name(alice, monkeypatch):
    monkeypatch.setattr("memoryos_memoryfs.operations.roll_back.ITEMS_MAX", 5)
    point = await snapshot(alice)
    ids = [await alice.write(f"alpha {n}") for n in range(6)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await rollback(alice, point)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "smaller subtrees" in caught.value.details()
    assert set(await alice.list_ids()) == set(ids)
    await alice.forget(ids[0])
    assert await code_of(rollback(alice, point)) is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("batch", [1, 2])
async def test_the_batches_of_one_rollback_are_one_change(service, alice, monkeypatch, batch):
    monkeypatch.setattr("memoryos_memoryfs.operations.roll_back._BATCH", batch)
    ids = await written(alice)
    before = await picture(service, alice)
    point = await snapshot(alice)
    for n, item_id in enumerate(ids[:4]):
        await alice.update(item_id, content=f"changed {n}")
    await alice.forget(ids[3])
    await alice.write("alpha, new")
    assert counts(await rollback(alice, point)) == (3, 1, 1, 0)
    assert await picture(service, alice) == before
    assert await service.rows("SELECT count(DISTINCT xid) FROM memoryfs.items WHERE cause = 12") == [(1,)]


async def test_it_goes_across_a_migration_and_a_later_column_has_its_default(service, alice):
    ids = await written(alice)
    before = await picture(service, alice)
    point = await snapshot(alice)
    for table in ("items", "item_revisions"):
        await service.rows(f"ALTER TABLE memoryfs.{table} ADD COLUMN later int4 NOT NULL DEFAULT 7")
    await alice.update(ids[0], content="alpha after the migration")
    await alice.write("new after the migration")
    await rollback(alice, point)
    assert await picture(service, alice) == before
    assert await service.rows("SELECT DISTINCT later FROM memoryfs.items") == [(7,)]


async def test_writes_go_on_beside_it_and_nobody_waits_in_a_ring(service, alice):
    ids = [await alice.write(f"alpha {n}") for n in range(30)]
    point = await snapshot(alice)

    async def change(n: int) -> None:
        order = ids if n % 2 else ids[::-1]
        entries = [memoryfs_pb2.WriteEntry(id=item_id, content=f"alpha changed {n}") for item_id in order]
        assert await code_of(alice.write_entries(entries)) is grpc.StatusCode.OK

    async def back() -> None:
        assert await code_of(rollback(alice, point)) is grpc.StatusCode.OK

    await asyncio.gather(*(change(n) for n in range(6)), back(), *(change(n) for n in range(6, 10)), back())
    await rollback(alice, point)
    found = {item.id: item.content for item in (await alice.list(page_size=100)).items}
    assert found == {item_id: f"alpha {n}" for n, item_id in enumerate(ids)}


async def test_what_it_did_is_history(alice):
    item_id = await alice.write("alpha")
    point = await snapshot(alice)
    await alice.update(item_id, content="changed")
    await rollback(alice, point)
    history = await alice.call("History", lifecycle_pb2.HistoryRequest(id=item_id))
    causes = [lifecycle_pb2.ChangeCause.Name(change.cause) for change in history.changes]
    assert causes == ["CHANGE_CAUSE_ROLLBACK", "CHANGE_CAUSE_UPDATE", "CHANGE_CAUSE_WRITE"]
    assert [change.item.content for change in history.changes] == ["alpha", "changed", "alpha"]


async def test_what_the_caller_cannot_reach_any_more_is_not_rolled_back(service, alice):
    here, there = f"{alice.path}/here", f"{alice.path}/there"
    moved, stays = await alice.write("alpha", path=here), await alice.write("beta", path=here)
    point = await snapshot(alice, path=here)
    await alice.update(stays, path=here, content="changed")
    request = namespace_pb2.MoveRequest(from_path=here, to_path=there, ids=[moved], request_id="m-1")
    await alice.call("Move", request)
    narrow = service.caller("alice", roles=frozenset({"user"}), clearance=5, write_paths=(here,))
    assert counts(await rollback(narrow, point, path=here)) == (1, 0, 0, 0)
    assert (await alice.get(moved)).path == there
    assert (await alice.get(stays)).content == "beta"
    await rollback(alice, point, path=here)
    assert (await alice.get(moved)).path == here
