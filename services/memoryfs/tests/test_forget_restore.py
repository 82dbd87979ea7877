"""Forgotten means gone from every read path at once, and back exactly as it was (I7)."""

from __future__ import annotations

import grpc
import pytest
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, memoryfs_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
STATE = grpc.StatusCode.FAILED_PRECONDITION
UNKNOWN = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def everywhere(caller, item_id: str, text: str) -> list[bool]:
    """Tell for each read path whether it gives the item."""
    return [
        item_id in await caller.read_ids(text),
        item_id in await caller.read_ids(),
        item_id in await caller.read_ids(text, filter=filter_pb2.Filter(min_confidence=0.1)),
        item_id in await caller.list_ids(),
        await code_of(caller.get(item_id)) is grpc.StatusCode.OK,
    ]


async def test_forget_and_restore(alice, service):
    text = "the rare word xylophone"
    near = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)
    entry = memoryfs_pb2.WriteEntry(content=text, embedding=near, tags=["t"], readers=["user:bob"])
    item_id = (await alice.write_entries([entry]))[0].id
    await alice.write("something else")
    before = await alice.get(item_id)
    assert all(await everywhere(alice, item_id, text))

    assert await alice.forget(item_id) == 1
    assert not any(await everywhere(alice, item_id, text))
    for table in ("item_tokens", "item_vectors"):
        assert await service.rows(f"SELECT 1 FROM memoryfs.{table} WHERE item_id = %s", item_id) == []
    assert await alice.list_ids(state=item_pb2.STATE_FORGOTTEN) == [item_id]
    assert await service.caller("bob").list_ids(state=item_pb2.STATE_FORGOTTEN) == []
    assert await code_of(alice.update(item_id, content="x")) is NOT_FOUND

    assert await alice.restore(item_id) == 1
    assert all(await everywhere(alice, item_id, text))
    assert await alice.get(item_id) == before
    found = (await alice.read("zzz", embedding=near)).hits[0]
    assert found.item == before
    assert found.details.dense == pytest.approx(1.0, abs=1e-3)
    assert await service.rows("SELECT count(*) FROM memoryfs.parked_vectors") == [(0,)]
    changes = await service.rows(
        "SELECT from_state, to_state, actor, cause FROM memoryfs.item_changes ORDER BY change_time"
    )
    assert changes == [(2, 4, "user:alice", 3), (4, 2, "user:alice", 4)]


async def test_a_forgotten_candidate_comes_back_as_a_candidate(alice):
    (result,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="doubt", confidence=0.2)])
    before = await alice.get(result.id)
    await alice.forget(result.id)
    assert await alice.list_ids(state=item_pb2.STATE_CANDIDATE) == []
    await alice.restore(result.id)
    assert await alice.get(result.id) == before
    assert await alice.read_ids("doubt") == []


async def test_forget_tells_the_truth_about_what_it_did(alice):
    ids = [await alice.write(f"item {n}") for n in range(3)]
    assert await code_of(alice.forget(UNKNOWN)) is NOT_FOUND
    assert await code_of(alice.forget(ids[0], UNKNOWN)) is NOT_FOUND
    assert await code_of(alice.forget(ids[0], path=f"{alice.path}/below")) is NOT_FOUND
    assert len(await alice.list_ids()) == 3
    assert await alice.forget(*ids, ids[0]) == 3
    assert await code_of(alice.forget(ids[0])) is NOT_FOUND
    assert await code_of(alice.restore(ids[0], UNKNOWN)) is NOT_FOUND
    assert await alice.restore(*ids) == 3
    assert await code_of(alice.restore(ids[0])) is STATE


async def test_a_retry_of_forget_gives_the_same_count(alice):
    item_id = await alice.write("x y z")
    assert await alice.forget(item_id, request="f") == 1
    assert await alice.forget(item_id, request="f") == 1
    assert await alice.restore(item_id, request="f") == 1
    assert await alice.forget(item_id, request="f") == 1
    assert await alice.list_ids() == [item_id]


async def test_forget_and_restore_are_audited(alice, service):
    item_id = await alice.write("x y z")
    await alice.forget(item_id)
    await alice.restore(item_id)
    rows = await service.rows("SELECT kind, method, target_ids FROM core.audit ORDER BY seq")
    name = "memoryos.memoryfs.v1.MemoryFS"
    assert rows == [("MEMORY_WRITE", f"{name}/{rpc}", [item_id]) for rpc in ("Write", "Forget", "Restore")]


async def test_five_hundred_items_are_forgotten_in_one_call(alice):
    entries = [memoryfs_pb2.WriteEntry(content=f"bulk {n}") for n in range(500)]
    ids = [result.id for result in await alice.write_entries(entries)]
    assert await alice.forget(*ids) == 500
    assert await alice.list_ids() == []
    assert await alice.read_ids("bulk", top_k=200) == []
    assert await alice.restore(*ids) == 500
    assert len(await alice.read_ids("bulk", top_k=200)) == 200
