"""Watch: every change that the caller may see, in order, once; nothing of what it may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, namespace_pb2, transfer_pb2
from memoryos_postgres import Database, queries, roles
from memoryos_testing.scopes import scope_of

from .conftest import EPISODIC

LIMIT_S = 20


@asynccontextmanager
async def watching(caller, *, path: str = "", position: str = "", from_start: bool = False) -> AsyncIterator:
    """Give a stream whose first message, a sign of life, has come."""
    request = transfer_pb2.WatchRequest(path=path or caller.path, position=position, from_start=from_start)
    stream = caller.stream("Watch", request)
    try:
        first = await asyncio.wait_for(stream.read(), LIMIT_S)
        assert first.heartbeat
        yield stream, first.position
    finally:
        stream.cancel()


async def events(stream, count: int) -> list[transfer_pb2.WatchResponse]:
    """Give the next changes."""
    found = []
    while len(found) < count:
        message = await asyncio.wait_for(stream.read(), LIMIT_S)
        assert message is not grpc.aio.EOF
        if not message.heartbeat:
            found.append(message)
    return found


def told(found) -> list[tuple[str, int, bool]]:
    return [(event.id, event.change.cause, event.change.HasField("item")) for event in found]


async def test_every_kind_of_change_comes_in_order(alice):
    async with watching(alice) as (stream, _):
        one = await alice.write("first words")
        await alice.update(one, content="second words")
        await alice.forget(one)
        await alice.restore(one)
        found = await events(stream, 4)
    assert told(found) == [
        (one, lifecycle_pb2.CHANGE_CAUSE_WRITE, True),
        (one, lifecycle_pb2.CHANGE_CAUSE_UPDATE, True),
        (one, lifecycle_pb2.CHANGE_CAUSE_FORGET, False),
        (one, lifecycle_pb2.CHANGE_CAUSE_RESTORE, True),
    ]
    assert [event.change.revision for event in found] == [1, 2, 2, 2]
    assert found[1].change.item.content == "second words"
    assert found[2].change.from_state == item_pb2.STATE_ACTIVE
    assert found[0].change.actor.user == "alice"


async def test_a_watcher_that_comes_back_misses_nothing_and_sees_nothing_twice(alice):
    ids = [await alice.write(f"words {n}") for n in range(7)]
    seen: list[str] = []
    position, from_start = "", True
    while len(seen) < 7:
        async with watching(alice, position=position, from_start=from_start) as (stream, _):
            for event in await events(stream, min(3, 7 - len(seen))):
                seen.append(event.id)
                position, from_start = event.position, False
    assert seen == ids
    async with watching(alice, position=position) as (stream, _):
        last = await alice.write("one more")
        assert [event.id for event in await events(stream, 1)] == [last]


async def test_many_items_of_one_transaction_go_over_many_pages(alice):
    entries = [memoryfs_pb2.WriteEntry(content=f"bulk {n}") for n in range(350)]
    results = await alice.write_entries(entries)
    async with watching(alice, from_start=True) as (stream, _):
        found = await events(stream, 350)
    assert sorted(event.id for event in found) == sorted(result.id for result in results)


async def test_a_position_is_good_for_its_caller_and_path_only(alice, bob):
    await alice.write("words")
    async with watching(alice, from_start=True) as (stream, _):
        (event,) = await events(stream, 1)
    for caller, path in ((bob, alice.path), (alice, f"{EPISODIC}/elsewhere")):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async with watching(caller, path=path, position=event.position):
                pass
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_late_commit_of_an_early_transaction_is_not_lost(alice, database):
    """A transaction that began before another one commits after it: its change still comes."""
    sql = queries.load("memoryos_memoryfs", "sql/items.sql")
    async with watching(alice) as (stream, _):
        async with (
            Database(database.section, roles.MEMORYFS) as opened,
            opened.scoped(scope_of(user="alice")) as early,
        ):
            item_id = await alice.write("before")
            await early.execute(sql["note_changes"], {
                "tenant": "acme", "ids": [item_id], "from_states": [2], "to_states": [2],
                "actor": "user:alice", "cause": 14, "trace_id": "",
            })  # fmt: skip
            later = await alice.write("later, and committed first")
            async with watching(alice) as (_, behind):
                pass
        found = await events(stream, 3)
    assert {event.id for event in found} == {item_id, later}
    assert sum(event.change.cause == lifecycle_pb2.CHANGE_CAUSE_TIER for event in found) == 1
    # A position that was given out while both ran lies before both.
    async with watching(alice, position=behind) as (stream, _):
        assert {event.id for event in await events(stream, 2)} == {item_id, later}


async def test_others_hear_only_of_what_they_may_read(alice, bob):
    async with watching(bob, path=EPISODIC) as (stream, _):
        await alice.write("private")
        await alice.write("doubtful", readers=["user:bob"], confidence=0.1)
        await alice.write("secret", readers=["user:bob"], sensitivity=9)
        shared = await alice.write("shared", readers=["user:bob"])
        found = await events(stream, 1)
        assert [event.id for event in found] == [shared]
        mask = FieldMask(paths=["readers", "content"])
        await alice.update(shared, content="no longer for bob", update_mask=mask)
        (loss,) = await events(stream, 1)
        assert told([loss]) == [(shared, lifecycle_pb2.CHANGE_CAUSE_UPDATE, False)]
        assert (loss.change.actor.user, loss.change.trace_id) == ("", "")
        await alice.update(shared, content="and later words of it")
        last = await alice.write("shared again", readers=["user:bob"])
        assert [event.id for event in await events(stream, 1)] == [last]


async def test_what_is_sealed_off_by_clearance_goes_without_words(alice, bob):
    item_id = await alice.write("open", readers=["user:bob"])
    async with watching(bob, path=EPISODIC) as (stream, _):
        await alice.update(item_id, sensitivity=9)
        (event,) = await events(stream, 1)
    assert (event.id, event.change.HasField("item")) == (item_id, False)


async def test_another_place_is_not_heard(alice):
    async with watching(alice, path=f"{EPISODIC}/foo") as (stream, _):
        await alice.write("elsewhere", path=f"{EPISODIC}/foobar")
        here = await alice.write("here", path=f"{EPISODIC}/foo/deep")
        assert [event.id for event in await events(stream, 1)] == [here]


async def until(stream, last: str) -> list[transfer_pb2.WatchResponse]:
    """Give the changes before those of the item `last`."""
    found: list[transfer_pb2.WatchResponse] = []
    while True:
        (event,) = await events(stream, 1)
        if event.id == last:
            return found
        found.append(event)


async def test_a_look_from_the_start_goes_by_the_readers_of_today(service, bob):
    alice = service.caller("alice", clearance=5)
    closed, gone, raised = [await alice.write(f"words of {n}", readers=["user:bob"]) for n in range(3)]
    await alice.update(closed, content="not for bob", update_mask=FieldMask(paths=["content", "readers"]))
    await alice.update(gone, content="words that go")
    await alice.forget(gone)
    await alice.update(raised, content="words of height", sensitivity=5)
    last = await alice.write("open", readers=["user:bob"])
    async with watching(bob, path=EPISODIC, from_start=True) as (stream, _):
        found = await until(stream, last)
    assert not [event.id for event in found if event.change.HasField("item")]
    assert {event.id for event in found} <= {closed, gone, raised}
    assert "words" not in str(found)


async def test_changes_of_state_are_told_below_the_clearance_and_of_own_candidates(service, bob):
    alice = service.caller("alice", clearance=5)
    doubt = await alice.write("doubtful", readers=["user:bob"], confidence=0.1)
    secret = await alice.write("secret", readers=["user:bob"], sensitivity=5)
    async with watching(bob, path=EPISODIC) as (stream, _):
        for item_id in (doubt, secret):
            await alice.forget(item_id)
            await alice.restore(item_id)
        last = await alice.write("open", readers=["user:bob"])
        assert await until(stream, last) == []
    async with watching(alice, from_start=True) as (stream, _):
        assert {event.id for event in await until(stream, last)} == {doubt, secret}


async def test_what_was_never_heard_of_is_no_loss(service, bob):
    alice = service.caller("alice", clearance=5)
    doubt = await alice.write("doubtful", readers=["user:bob"], confidence=0.1)
    secret = await alice.write("secret", readers=["user:bob"], sensitivity=5)
    async with watching(bob, path=EPISODIC) as (stream, _):
        for item_id in (doubt, secret):
            await alice.update(item_id, content="closed", update_mask=FieldMask(paths=["content", "readers"]))
        last = await alice.write("open", readers=["user:bob"])
        assert await until(stream, last) == []


async def test_what_moves_out_of_the_path_is_gone_for_its_watcher(alice):
    here, there = f"{EPISODIC}/here", f"{EPISODIC}/there"
    item_id = await alice.write("words", path=here)
    async with watching(alice, path=here) as (stream, _):
        request = namespace_pb2.MoveRequest(from_path=here, to_path=there, ids=[item_id], request_id="m-1")
        await alice.call("Move", request)
        (event,) = await events(stream, 1)
    assert (event.id, event.change.HasField("item")) == (item_id, False)
