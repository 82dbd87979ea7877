"""Forget by filter: previewed, then exactly that, however many."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import grpc
import pytest
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, lifecycle_pb2, memoryfs_pb2
from memoryos_core.clock import SystemClock
from memoryos_memoryfs.operations import forget_matching

ABORTED = grpc.StatusCode.ABORTED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
_numbers = itertools.count(1)


async def forget(caller, *, path: str = "", **fields):
    fields.setdefault("filter", filter_pb2.Filter())
    request = lifecycle_pb2.ForgetRequest(path=path or caller.path, request_id=f"f-{next(_numbers)}", **fields)
    return await caller.call("Forget", request)


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_1001_items_are_forgotten_in_one_call(alice, bob):
    vector = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)
    for start in range(0, 1001, 500):
        entries = [
            memoryfs_pb2.WriteEntry(content=f"row {n}", tags=["bulk"], embedding=vector)
            for n in range(start, min(start + 500, 1001))
        ]
        await alice.write_entries(entries)
    kept = await alice.write("another one", tags=["other"])
    theirs = await bob.write("row of bob", tags=["bulk"], readers=["user:alice"])
    where = filter_pb2.Filter(tags_all=["bulk"])
    preview = await forget(alice, filter=where, preview=True)
    assert (preview.matched_count, preview.forgotten_count) == (1001, 0)
    assert len(await alice.read_ids(top_k=100)) == 100
    done = await forget(alice, filter=where, preview_token=preview.preview_token)
    assert (done.matched_count, done.forgotten_count) == (1001, 1001)
    assert sorted(await alice.read_ids(top_k=100)) == sorted([kept, theirs])
    assert sorted(await alice.list_ids(page_size=100)) == sorted([kept, theirs])
    assert (await forget(alice, filter=where, preview=True)).matched_count == 0


async def test_what_is_written_after_the_preview_stays(alice):
    await alice.write("one", tags=["x"])
    where = filter_pb2.Filter(tags_all=["x"])
    preview = await forget(alice, filter=where, preview=True)
    later = await alice.write("two", tags=["x"])
    assert (await forget(alice, filter=where, preview_token=preview.preview_token)).forgotten_count == 1
    assert await alice.list_ids() == [later]


async def test_a_changed_or_missing_item_makes_the_preview_stale(alice):
    first = await alice.write("one", tags=["x"])
    second = await alice.write("two", tags=["x"])
    where = filter_pb2.Filter(tags_all=["x"])
    preview = await forget(alice, filter=where, preview=True)
    await alice.update(first, content="one, corrected")
    assert await code_of(forget(alice, filter=where, preview_token=preview.preview_token)) is ABORTED
    preview = await forget(alice, filter=where, preview=True)
    await alice.forget(second)
    assert await code_of(forget(alice, filter=where, preview_token=preview.preview_token)) is ABORTED
    assert await alice.list_ids() == [first]


async def test_a_token_is_for_its_caller_path_and_filter(alice, bob, mallory):
    await alice.write("one", tags=["x"])
    where = filter_pb2.Filter(tags_all=["x"])
    token = (await forget(alice, filter=where, preview=True)).preview_token
    for caller, path, condition in (
        (bob, alice.path, where),
        (alice, f"{alice.path}/below", where),
        (alice, alice.path, filter_pb2.Filter()),
    ):
        assert await code_of(forget(caller, path=path, filter=condition, preview_token=token)) is ABORTED
    await alice.write("two", path=f"{alice.path}/below", tags=["y"])
    there = filter_pb2.Filter(tags_all=["y"])  # the same items from above: a token is for its path all the same
    below = (await forget(alice, path=f"{alice.path}/below", filter=there, preview=True)).preview_token
    assert await code_of(forget(alice, filter=there, preview_token=below)) is ABORTED
    for broken in (token[:-2] + "AA", "x", "é"):
        assert await code_of(forget(alice, filter=where, preview_token=broken)) in (ABORTED, INVALID)
    assert await code_of(forget(mallory, path=alice.path, filter=where, preview_token=token)) is (
        grpc.StatusCode.PERMISSION_DENIED
    )
    assert len(await alice.list_ids()) == 2
    assert await code_of(forget(alice, filter=where)) is INVALID
    assert await code_of(forget(alice, filter=where, ids=["mem_01M8PY913C9D4RC2DH87WC7W30"], preview=True)) is INVALID


class Later(SystemClock):
    shift = timedelta()

    def now(self) -> datetime:
        return super().now() + self.shift


async def test_a_preview_ends(start_service, monkeypatch):
    assert timedelta(hours=1) == forget_matching.PREVIEW_LIFE
    monkeypatch.setattr(forget_matching, "PREVIEW_LIFE", timedelta(minutes=10))  # tokens of tests live an hour
    clock = Later()
    alice = (await start_service(clock=clock)).caller("alice")
    await alice.write("one")
    token = (await forget(alice, preview=True)).preview_token
    kept = await alice.write("two", tags=["kept"])
    where = filter_pb2.Filter(tags_all=["kept"])
    unused = (await forget(alice, filter=where, preview=True)).preview_token
    clock.shift = timedelta(minutes=9)
    retry = lifecycle_pb2.ForgetRequest(
        path=alice.path, request_id="again", filter=filter_pb2.Filter(), preview_token=token
    )
    assert (await alice.call("Forget", retry)).forgotten_count == 1
    clock.shift = timedelta(minutes=11)
    assert (await alice.call("Forget", retry)).forgotten_count == 1  # the answer of before
    assert await code_of(forget(alice, preview_token=token)) is ABORTED
    assert await code_of(forget(alice, filter=where, preview_token=unused)) is ABORTED
    assert await alice.list_ids() == [kept]


@pytest.mark.parametrize("state", [item_pb2.STATE_CANDIDATE, item_pb2.STATE_SUPERSEDED])
async def test_candidates_and_superseded_items_go_too(alice, state):
    key = item_pb2.EventKey(subject="home")
    await alice.write("lives in Berlin", event_key=key)
    await alice.write("lives in Rome", event_key=key)
    await alice.write("maybe moves", confidence=0.5)
    where = filter_pb2.Filter(states=[state])
    preview = await forget(alice, filter=where, preview=True)
    assert preview.matched_count == 1
    assert (await forget(alice, filter=where, preview_token=preview.preview_token)).forgotten_count == 1
    assert (await forget(alice, preview=True)).matched_count == 2
