"""Snapshots and Diff: points of a subtree, their makers, and what differs as far as the caller may read."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from memoryos.memoryfs.v1 import namespace_pb2, snapshots_pb2
from memoryos_postgres import Database, roles

DENIED = grpc.StatusCode.PERMISSION_DENIED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
_numbers = iter(range(1, 1_000_000))


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def create(caller, *, path="", request="", **fields):
    return await caller.call(
        "CreateSnapshot",
        snapshots_pb2.CreateSnapshotRequest(
            path=path or caller.path, request_id=request or f"snap-{next(_numbers)}", **fields
        ),
    )


async def snapshot(caller, **fields) -> str:
    return (await create(caller, **fields)).snapshot.id


async def listed(caller, *, path="", **fields):
    return await caller.call("ListSnapshots", snapshots_pb2.ListSnapshotsRequest(path=path or caller.path, **fields))


async def diff(caller, start: str, end: str = "", *, path="", **fields):
    return await caller.call(
        "Diff",
        snapshots_pb2.DiffRequest(path=path or caller.path, from_snapshot_id=start, to_snapshot_id=end, **fields),
    )


def told(answer) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {
        entry.id: (snapshots_pb2.DiffKind.Name(entry.kind).removeprefix("DIFF_KIND_"), tuple(entry.fields))
        for entry in answer.differences
    }


@pytest.fixture
def alice(service):
    return service.caller("alice", roles=frozenset({"user"}), clearance=5)


@pytest.fixture
def bob(service):
    return service.caller("bob", roles=frozenset({"user"}))


async def test_the_newest_five_of_a_channel_are_kept(alice, bob):
    kept = []
    for n in range(7):
        answer = await create(alice, channel="release", title=f"v{n}")
        kept.append(answer.snapshot.id)
        assert list(answer.dropped_ids) == ([kept[n - 5]] if n >= 5 else [])
    other = await snapshot(alice)
    theirs = await snapshot(bob, channel="release")
    found = await listed(alice)
    assert [entry.id for entry in found.snapshots] == [other, *kept[:1:-1]]
    assert found.snapshots[1].title == "v6"
    assert {entry.channel for entry in found.snapshots} == {"manual", "release"}
    assert [entry.id for entry in (await listed(bob)).snapshots] == [theirs]


async def test_six_at_once_keep_five(alice):
    await asyncio.gather(*(create(alice, channel="release") for _ in range(9)))
    assert len((await listed(alice)).snapshots) == 5


async def test_they_are_listed_by_place_in_pages(alice):
    above = await snapshot(alice)
    here = [await snapshot(alice, path=f"{alice.path}/a", channel=f"c{n}") for n in range(3)]
    below = await snapshot(alice, path=f"{alice.path}/a/b")
    beside = await snapshot(alice, path=f"{alice.path}/ab")
    found = [entry.id for entry in (await listed(alice, path=f"{alice.path}/a")).snapshots]
    assert found == [below, *here[::-1], above]
    assert beside not in found
    assert [e.id for e in (await listed(alice, path=f"{alice.path}/a", channel="c1")).snapshots] == [here[1]]
    pages, token = [], ""
    while True:
        page = await listed(alice, path=f"{alice.path}/a", page_size=2, page_token=token)
        pages += [entry.id for entry in page.snapshots]
        token = page.next_page_token
        if not token:
            break
    assert pages == found


async def test_only_the_maker_and_a_tenant_admin_see_one(service, alice, bob):
    point = await snapshot(alice, title="标题 secret title")
    assert len((await listed(bob)).snapshots) == 0
    assert await code_of(diff(bob, point)) is NOT_FOUND
    admin = service.caller("root", roles=frozenset({"tenant-admin"}))
    assert [entry.id for entry in (await listed(admin)).snapshots] == [point]
    evil = service.caller("mallory", tenant="evil", roles=frozenset({"tenant-admin"}))
    assert len((await listed(evil)).snapshots) == 0
    assert await code_of(listed(evil, path=alice.path)) is DENIED
    assert await code_of(diff(evil, point)) is NOT_FOUND
    assert await service.rows("SELECT position('secret'::bytea in sealed) FROM memoryfs.snapshots") == [(0,)]


async def test_a_retry_makes_one_snapshot(alice):
    first = await create(alice, request="s-1")
    assert await create(alice, request="s-1") == first
    assert len((await listed(alice)).snapshots) == 1
    assert await code_of(create(alice, request="s-1", channel="x")) is grpc.StatusCode.ABORTED


async def test_a_diff_names_what_was_added_changed_removed_and_opened(alice):
    ids = [await alice.write(f"fact {n}", readers=["user:bob"]) for n in range(5)]
    start = await snapshot(alice)
    added = await alice.write("new")
    await alice.update(ids[0], content="changed", tags=["t"])
    await alice.update(ids[1], readers=["user:bob", "user:carol"])
    await alice.update(ids[2], sensitivity=2)
    await alice.forget(ids[3])
    end = await snapshot(alice)
    gone = await alice.write("later")
    await alice.update(ids[4], content="later, too")
    expected = {
        added: ("ADDED", ()),
        ids[0]: ("CHANGED", ("content", "tags")),
        ids[1]: ("ACL", ("readers",)),
        ids[2]: ("ACL", ("sensitivity",)),
        ids[3]: ("REMOVED", ()),
    }
    assert told(await diff(alice, start, end)) == expected
    now = await diff(alice, start)
    assert told(now) == {**expected, gone: ("ADDED", ()), ids[4]: ("CHANGED", ("content",))}
    sides = {entry.id: (entry.before.content, entry.after.content) for entry in now.differences}
    assert sides[ids[0]] == ("fact 0", "changed")
    assert sides[ids[3]] == ("", "")  # forgotten today: its owner is told the name alone
    assert await code_of(diff(alice, end, start)) is INVALID


async def test_a_diff_comes_in_pages(alice):
    start = await snapshot(alice)
    ids = sorted([await alice.write(f"new {n}") for n in range(11)])
    pages, token = [], ""
    while True:
        page = await diff(alice, start, page_size=4, page_token=token)
        pages += [entry.id for entry in page.differences]
        token = page.next_page_token
        if not token:
            break
    assert pages == ids


async def test_a_diff_shows_nothing_that_the_caller_may_not_read_today(service, alice, bob):
    shared = await alice.write("open", readers=["user:bob"])
    closed = await alice.write("to be closed", readers=["user:bob"])
    opened = await alice.write("my secret")
    removed = await alice.write("to be forgotten", readers=["user:bob"])
    raised = await alice.write("words of height", readers=["user:bob"])
    cleared = service.caller("alice", roles=frozenset({"user"}), clearance=5)
    lowered = await cleared.write("too delicate", readers=["user:bob"], sensitivity=5)
    start = await snapshot(bob)
    await alice.update(raised, sensitivity=5)
    await cleared.update(
        lowered, content="for everyone", sensitivity=0, update_mask={"paths": ["content", "sensitivity"]}
    )
    await alice.update(shared, content="open, changed")
    await alice.update(closed, content="closed now", readers=["user:carol"])
    await alice.update(opened, content="harmless", readers=["user:bob"])
    await alice.write("private and new")
    await alice.forget(removed)
    found = await diff(bob, start)
    assert told(found) == {shared: ("CHANGED", ("content",)), opened: ("ADDED", ()), lowered: ("ADDED", ())}
    text = str(found)
    for word in ("secret", "closed", "private", "forgotten", "height", "delicate"):
        assert word not in text


async def test_what_moved_is_changed_or_gone_from_the_smaller_place(alice):
    item_id = await alice.write("fact", path=f"{alice.path}/a")
    start = await snapshot(alice)
    narrow = await snapshot(alice, path=f"{alice.path}/a")
    request = namespace_pb2.MoveRequest(
        from_path=f"{alice.path}/a", ids=[item_id], to_path=f"{alice.path}/b", request_id="mv-1"
    )
    await alice.call("Move", request)
    assert told(await diff(alice, start))[item_id] == ("CHANGED", ("path",))
    assert told(await diff(alice, narrow, path=f"{alice.path}/a"))[item_id] == ("REMOVED", ())


async def test_a_point_does_not_see_what_was_begun_before_and_committed_after(service, alice):
    """The write's transaction is older than the snapshot, and ends later: a rollback takes it back, too."""
    item_id = await alice.write("fact", importance=0.5)
    await alice.update(item_id, content="fact, changed")
    async with Database(service.database.section, roles.MEMORYFS) as database:
        async with database.upkeep("acme") as late:
            await late.execute("UPDATE memoryfs.items SET pinned = true, xid = pg_current_xact_id()")
            point = await snapshot(alice)
            after = await snapshot(alice, channel="other")
        assert told(await diff(alice, point)) == {item_id: ("CHANGED", ("content", "pinned"))}
    assert told(await diff(alice, point, after)) == {}
