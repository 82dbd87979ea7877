"""History and Revert: every change of an item, and an earlier revision once more (DESIGN 3.2)."""

from __future__ import annotations

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2

ABORTED = grpc.StatusCode.ABORTED
DENIED = grpc.StatusCode.PERMISSION_DENIED
NOT_FOUND = grpc.StatusCode.NOT_FOUND
STATE = grpc.StatusCode.FAILED_PRECONDITION
UNKNOWN = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
_numbers = iter(range(1, 1_000_000))


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def history(caller, item_id: str, **fields):
    return await caller.call("History", lifecycle_pb2.HistoryRequest(id=item_id, **fields))


async def revert(caller, item_id: str, revision: int, *, path="", request="", **fields) -> item_pb2.Item:
    request = lifecycle_pb2.RevertRequest(
        path=path or caller.path,
        id=item_id,
        revision=revision,
        request_id=request or f"revert-{next(_numbers)}",
        **fields,
    )
    return (await caller.call("Revert", request)).item


def told(changes) -> list[tuple[str, int, str, str, str]]:
    return [
        (
            lifecycle_pb2.ChangeCause.Name(change.cause).removeprefix("CHANGE_CAUSE_"),
            change.revision,
            item_pb2.State.Name(change.from_state).removeprefix("STATE_"),
            item_pb2.State.Name(change.to_state).removeprefix("STATE_"),
            change.item.content,
        )
        for change in changes
    ]


async def test_every_change_is_told_newest_first(alice):
    item_id = await alice.write("one")
    await alice.update(item_id, content="two")
    await alice.forget(item_id)
    await alice.restore(item_id)
    await alice.update(item_id, confidence=0.2)
    found = (await history(alice, item_id)).changes
    assert told(found) == [
        ("UPDATE", 3, "ACTIVE", "CANDIDATE", "two"),
        ("RESTORE", 2, "FORGOTTEN", "ACTIVE", ""),
        ("FORGET", 2, "ACTIVE", "FORGOTTEN", ""),
        ("UPDATE", 2, "ACTIVE", "ACTIVE", "two"),
        ("WRITE", 1, "UNSPECIFIED", "ACTIVE", "one"),
    ]
    assert {change.actor.user for change in found} == {"alice"}
    assert all(len(change.trace_id) == 32 for change in found)


async def test_pages_join_without_a_gap(alice):
    item_id = await alice.write("text 1")
    for n in range(2, 8):
        await alice.update(item_id, content=f"text {n}")
        if n % 2:
            await alice.forget(item_id)
            await alice.restore(item_id)
    whole = (await history(alice, item_id)).changes
    assert len(whole) == 7 + 6
    for size in (1, 2, 3, 5):
        pages, token = [], ""
        while True:
            page = await history(alice, item_id, page_size=size, page_token=token)
            pages += page.changes
            token = page.next_page_token
            if not token:
                break
        assert list(pages) == list(whole)
    first = await history(alice, item_id, page_size=1)
    other = await alice.write("another")
    assert await code_of(history(alice, other, page_token=first.next_page_token)) is grpc.StatusCode.INVALID_ARGUMENT


async def test_opening_an_item_does_not_open_what_it_said_before(alice, bob):
    item_id = await alice.write("my secret")
    assert await code_of(history(bob, item_id)) is NOT_FOUND
    await alice.update(item_id, content="open to bob", readers=["user:bob"])
    assert told((await history(bob, item_id)).changes) == [("UPDATE", 2, "UNSPECIFIED", "ACTIVE", "open to bob")]
    await alice.update(item_id, content="closed again", readers=[], update_mask={"paths": ["content", "readers"]})
    assert await code_of(history(bob, item_id)) is NOT_FOUND
    assert len((await history(alice, item_id)).changes) == 3


async def test_of_a_forgotten_item_the_owner_is_told_what_happened_and_nobody_what_it_said(alice, bob, mallory):
    item_id = await alice.write("the word zanzibar", readers=["user:bob"])
    await alice.update(item_id, content="zanzibar, again")
    await alice.forget(item_id)
    found = await history(alice, item_id)
    assert b"zanzibar" not in found.SerializeToString()
    assert [change.revision for change in found.changes] == [2, 2, 1]
    assert not any(change.HasField("item") for change in found.changes)
    for caller in (bob, mallory):
        assert await code_of(history(caller, item_id)) is NOT_FOUND
    assert await code_of(history(alice, UNKNOWN)) is NOT_FOUND


async def test_todays_sensitivity_holds_for_what_was_said_before(service):
    alice, bob = service.caller("alice", clearance=5), service.caller("bob", clearance=1)
    item_id = await alice.write("harmless", readers=["user:bob"])
    await alice.update(item_id, sensitivity=5)
    assert await code_of(history(bob, item_id)) is NOT_FOUND
    await alice.update(item_id, sensitivity=1)
    assert [change.revision for change in (await history(bob, item_id)).changes if change.HasField("item")] == [3, 1]


async def test_history_is_audited(alice, service):
    item_id = await alice.write("x y z")
    await history(alice, item_id)
    rows = await service.rows("SELECT kind, target_ids FROM core.audit WHERE method LIKE '%%/History'")
    assert rows == [("MEMORY_READ", [item_id])]


async def test_revert_brings_values_and_vector_back_without_a_model(alice, service):
    near = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)
    entry = memoryfs_pb2.WriteEntry(
        content="first words", embedding=near, tags=["a"], attributes_json=b'{"n":1}', importance=0.9, user="u7"
    )
    item_id = (await alice.write_entries([entry]))[0].id
    before = await alice.get(item_id)
    vector = await service.rows("SELECT vec::text FROM memoryfs.item_vectors WHERE item_id = %s", item_id)
    await alice.update(item_id, content="other words", tags=["b"], attributes_json=b'{"n":2}', importance=0.1)
    service.embedder.down = True
    item = await revert(alice, item_id, 1)
    service.embedder.down = False
    assert item.revision == 3
    assert item.etag != before.etag
    for name in ("content", "tags", "attributes_json", "importance", "user", "embed_state", "create_time", "readers"):
        assert getattr(item, name) == getattr(before, name), name
    assert await service.rows("SELECT vec::text FROM memoryfs.item_vectors WHERE item_id = %s", item_id) == vector
    assert told((await history(alice, item_id)).changes)[0] == ("REVERT", 3, "ACTIVE", "ACTIVE", "first words")
    again = await revert(alice, item_id, 2)
    assert again.content == "other words"


async def test_revert_needs_the_etag_it_was_given_and_a_revision_that_is_there(alice, bob):
    item_id = await alice.write("one", readers=["user:bob"])
    await alice.update(item_id, content="two")
    stale = (await alice.get(item_id)).etag
    await alice.update(item_id, content="three")
    assert await code_of(revert(alice, item_id, 1, if_match=stale)) is ABORTED
    assert await code_of(revert(alice, item_id, 9)) is NOT_FOUND
    assert await code_of(revert(bob, item_id, 1)) is DENIED
    assert await code_of(revert(alice, UNKNOWN, 1)) is NOT_FOUND
    assert await code_of(revert(alice, item_id, 1, path=f"{alice.path}/below")) is NOT_FOUND
    assert (await alice.get(item_id)).content == "three"
    assert (await revert(alice, item_id, 1, if_match=(await alice.get(item_id)).etag)).content == "one"


async def test_revert_does_not_widen_todays_readers(service):
    alice = service.caller("alice", clearance=5)
    item_id = await alice.write("one", readers=["user:bob", "user:carol"])
    await alice.update(item_id, readers=["user:bob"])
    await alice.update(item_id, content="two", sensitivity=3)
    assert await code_of(revert(alice, item_id, 1)) is DENIED
    assert await code_of(revert(alice, item_id, 2)) is DENIED  # less sensitive
    assert list((await alice.get(item_id)).readers) == ["user:bob"]
    await alice.update(item_id, readers=["user:bob", "user:carol"], update_mask={"paths": ["readers", "sensitivity"]})
    assert (await revert(alice, item_id, 1)).content == "one"


async def test_revert_does_not_promote_what_is_in_doubt(alice):
    item_id = await alice.write("once sure")
    await alice.update(item_id, confidence=0.3)
    item = await revert(alice, item_id, 1)
    assert item.state == item_pb2.STATE_CANDIDATE
    assert item.HasField("expire_time")
    assert await alice.list_ids() == []


async def test_a_forgotten_item_is_not_reverted(alice):
    item_id = await alice.write("one")
    await alice.update(item_id, content="two")
    await alice.forget(item_id)
    assert await code_of(revert(alice, item_id, 1)) is NOT_FOUND


async def test_a_retry_of_revert_makes_one_revision(alice):
    item_id = await alice.write("one")
    await alice.update(item_id, content="two")
    first = await revert(alice, item_id, 1, request="r-1")
    assert await revert(alice, item_id, 1, request="r-1") == first
    assert (await alice.get(item_id)).revision == 3
    assert await code_of(revert(alice, item_id, 2, request="r-1")) is ABORTED


@pytest.mark.parametrize("count", [120])
async def test_a_long_history_reverts_to_any_revision(alice, count):
    item_id = await alice.write("text 1")
    for n in range(2, count + 1):
        await alice.update(item_id, content=f"text {n}")
    assert (await revert(alice, item_id, count // 2)).content == f"text {count // 2}"
    assert len((await history(alice, item_id, page_size=200)).changes) == count + 1
