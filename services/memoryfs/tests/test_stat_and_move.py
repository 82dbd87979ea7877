"""Stat counts what the caller may read; Move keeps ids, history and lineage and widens nothing."""

from __future__ import annotations

import asyncio
import unicodedata

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos.memoryfs.v1 import namespace_pb2 as pb
from memoryos_grpc import remote_error

from .test_path_settings import refused, settle

ROOT = "/tenants/acme/memory/episodic"
SEMANTIC = "/tenants/acme/memory/semantic"
NAMES = (
    "user_1",
    "user-1",
    "userx1",
    "foo",
    "foobar",
    "100%",
    "%",
    "_",
    "A",
    "a",
    "é",
    "名" * 100,
    "with space",
    "emoji 🙂",
    "quote'\"\\",
    "a:b",
    "[0]",
    "*",
)


@pytest.fixture
def admin(service):
    return service.caller("root", roles=frozenset({"tenant-admin", "user"}))


async def stat(caller, path=ROOT, *, children=False):
    return await caller.call("Stat", pb.StatRequest(path=path, with_children=children))


_numbers = iter(range(1, 10**9))


async def move(caller, source, target, *ids, request=""):
    message = pb.MoveRequest(from_path=source, to_path=target, ids=ids, request_id=request or f"move-{next(_numbers)}")
    return (await caller.call("Move", message, timeout_s=120)).moved_count


async def test_names_that_look_alike_are_different_places_everywhere(alice):
    written = {name: await alice.write(f"text in place {n}", path=f"{ROOT}/{name}") for n, name in enumerate(NAMES)}
    for name, item_id in written.items():
        path = f"{ROOT}/{name}"
        assert await alice.list_ids(path=path) == [item_id], name
        assert await alice.read_ids("text", path=path) == [item_id], name
        assert (await stat(alice, path)).usage.active_count == 1, name
    found = await stat(alice, children=True)
    assert {child.path for child in found.children} == {f"{ROOT}/{name}" for name in NAMES}
    assert found.usage.active_count == len(NAMES)
    for n, name in enumerate(NAMES):
        assert await move(alice, f"{ROOT}/{name}", f"{SEMANTIC}/moved/{name}") == 1, name
        assert (await stat(alice, ROOT)).usage.active_count == len(NAMES) - 1 - n
    assert sorted(await alice.list_ids(path=f"{SEMANTIC}/moved", page_size=100)) == sorted(written.values())


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/tenants/acme",
        "/tenants/acme/memory",
        "/tenants/acme/memory/episodic/",
        "/tenants/acme/memory/episodic//x",
        "/tenants/acme/memory/episodic/..",
        "/tenants/acme/memory/episodic/.",
        "/tenants/acme/memory/Episodic",
        "/tenants/acme/memory/episodic/" + unicodedata.normalize("NFD", "é"),
        "/tenants/acme/memory/episodic/a\u200bb",
        "/tenants/acme/memory/episodic/" + "名" * 256,
        "/tenants/acme/memory/episodic" + "/x" * 21,
    ],
)
async def test_what_is_no_path_is_refused_by_every_method_of_places(alice, admin, path):
    for call in (
        stat(alice, path),
        move(alice, path, f"{ROOT}/x"),
        move(alice, f"{ROOT}/x", path),
        settle(admin, path, gate=0.1),
        alice.call("ListPathSettings", pb.ListPathSettingsRequest(path=path)),
        alice.call("GetPathSettings", pb.GetPathSettingsRequest(path=path)),
        alice.list(path=path) if path else alice.call("List", memoryfs_pb2.ListRequest()),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_stat_counts_what_the_caller_may_read_by_state(service, admin, alice, bob):
    await alice.write("open", path=f"{ROOT}/a", readers=["user:bob"])
    await alice.write("closed 中文", path=f"{ROOT}/a/b")
    await alice.write("doubt", path=f"{ROOT}/a", confidence=0.1)
    gone = await alice.write("gone", path=f"{ROOT}/c", readers=["user:bob"])
    await alice.forget(gone, path=ROOT)
    await service.caller("alice", clearance=5).write("secret", path=f"{ROOT}/s", sensitivity=5, readers=["user:bob"])
    mine = (await stat(alice)).usage
    assert (mine.active_count, mine.candidate_count, mine.forgotten_count) == (2, 1, 1)
    assert mine.content_bytes == len("open") + len("closed 中文".encode()) + len("doubt") + len("gone")
    theirs = await stat(bob, children=True)
    assert theirs.usage == pb.Usage(active_count=1, content_bytes=4, newest_time=theirs.usage.newest_time)
    assert [child.path for child in theirs.children] == [f"{ROOT}/a"]
    assert (await stat(service.caller("zoe"), children=True)) == pb.StatResponse(usage=pb.Usage())
    await refused(stat(service.caller("mallory", tenant="evil")), "PATH_NOT_ALLOWED")
    await refused(stat(service.caller("alice", read_paths=(f"{ROOT}/a",))), "PATH_NOT_ALLOWED")


async def test_stat_gives_the_places_below_largest_first(alice):
    for n in range(4):
        await alice.write("x" * (n + 1) * 10, path=f"{ROOT}/p{n}/deep")
    await alice.write("of the place itself")
    found = await stat(alice, children=True)
    assert [child.path for child in found.children] == [f"{ROOT}/p{n}" for n in (3, 2, 1, 0)]
    assert [child.usage.content_bytes for child in found.children] == [40, 30, 20, 10]
    assert found.usage.active_count == 5
    assert not found.children_truncated
    assert not (await stat(alice)).children


async def test_pages_of_a_list_are_stable_while_rows_come_and_go(alice):
    ids = [await alice.write(f"text {n}") for n in range(9)]
    newest_first = list(reversed(ids))
    first = await alice.list(page_size=3)
    assert [item.id for item in first.items] == newest_first[:3]
    await alice.write("newer than the page")
    await alice.forget(newest_first[2])  # the row where the page ended
    await alice.forget(newest_first[4])
    await move(alice, ROOT, f"{SEMANTIC}/x", newest_first[6])
    second = await alice.list(page_size=3, page_token=first.next_page_token)
    assert [item.id for item in second.items] == [newest_first[3], newest_first[5], newest_first[7]]
    third = await alice.list(page_size=3, page_token=second.next_page_token)
    assert [item.id for item in third.items] == [newest_first[8]]
    assert not third.next_page_token


async def test_a_moved_subtree_keeps_ids_history_and_lineage_and_is_found_there_by_words_and_meaning(service, alice):
    item = await alice.write("Anna plays the cello", path=f"{ROOT}/old/people/anna", tags=["music"])
    await alice.update(item, path=ROOT, content="Anna plays the viola")
    doubt = await alice.write("perhaps", path=f"{ROOT}/old", confidence=0.2)
    gone = await alice.write("gone", path=f"{ROOT}/old")
    await alice.forget(gone, path=ROOT)
    other = await alice.write("stays", path=f"{ROOT}/older")
    assert await move(alice, f"{ROOT}/old", f"{SEMANTIC}/new") == 2
    moved = await alice.get(item)
    assert (moved.path, moved.revision, list(moved.tags)) == (f"{SEMANTIC}/new/people/anna", 3, ["music"])
    assert (await alice.get(doubt)).path == f"{SEMANTIC}/new"
    assert (await alice.get(other)).path == f"{ROOT}/older"
    assert await alice.read_ids("viola", path=f"{SEMANTIC}/new/people") == [item]
    assert await alice.read_ids("viola", path=f"{ROOT}/old") == []
    assert await alice.read_ids("Anna plays the viola", path=f"{SEMANTIC}/new", min_score=0.9) == [item]
    # What was forgotten did not move, and comes back where it was.
    await alice.restore(gone, path=ROOT)
    assert (await alice.get(gone)).path == f"{ROOT}/old"
    causes = await service.rows(
        "SELECT revision, cause FROM memoryfs.item_revisions WHERE id = %s UNION"
        " SELECT revision, cause FROM memoryfs.items WHERE id = %s ORDER BY 1",
        item,
        item,
    )
    assert causes == [(1, 1), (2, 2), (3, 5)]
    places = await service.rows(
        "SELECT DISTINCT i.path_id = t.path_id, i.path_id = v.path_id FROM memoryfs.items i"
        " JOIN memoryfs.item_tokens t ON t.item_id = i.id JOIN memoryfs.item_vectors v ON v.item_id = i.id"
    )
    assert places == [(True, True)]


async def test_a_move_is_refused_whole(service, admin, alice, bob):
    item = await alice.write("mine", path=f"{ROOT}/a", readers=["user:bob"])
    theirs = await bob.write("theirs", path=f"{ROOT}/a", readers=["user:alice"])
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/b", item, theirs), "NOT_OWNER")
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/b", item, "mem_00000000000000000000000000"), "ITEM_NOT_FOUND")
    await refused(move(alice, f"{ROOT}/x", f"{ROOT}/b", item), "ITEM_NOT_FOUND")
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/a/b"), "INVALID_FIELD")
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/a"), "INVALID_FIELD")
    await refused(move(alice, f"{ROOT}/a", "/tenants/evil/memory/episodic/a"), "PATH_NOT_ALLOWED")
    for ceiling in (f"{ROOT}/a", f"{ROOT}/b"):
        narrow = service.caller("alice", write_paths=(ceiling,))
        await refused(move(narrow, f"{ROOT}/a", f"{ROOT}/b", item), "PATH_NOT_ALLOWED")
    deep = ROOT + "/d" * 19
    await alice.write("deep", path=f"{ROOT}/a/b/c")
    await refused(move(alice, f"{ROOT}/a", deep), "PATH_INVALID")
    await settle(admin, f"{ROOT}/closed", writers=["group:none"])
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/closed", item), "NOT_WRITER")
    await settle(admin, f"{ROOT}/half/b/c", writers=["group:none"])
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/half"), "NOT_WRITER")
    await settle(admin, f"{ROOT}/full", items_max=1)
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/full"), "QUOTA_EXCEEDED")
    await settle(admin, f"{ROOT}/strict", gate=1.0)
    doubt = await alice.write("fairly sure", path=f"{ROOT}/a", confidence=0.85)
    await refused(move(alice, f"{ROOT}/a", f"{ROOT}/strict", doubt), "ITEM_STATE")
    assert {(await alice.get(i)).path for i in (item, doubt, theirs)} == {f"{ROOT}/a"}
    # The subtree as far as the caller may change it; the same request moves once.
    assert await move(alice, f"{ROOT}/a", f"{ROOT}/b", request="twice") == 3
    assert await move(alice, f"{ROOT}/a", f"{ROOT}/b", request="twice") == 3
    assert (await bob.get(theirs)).path == f"{ROOT}/a"
    assert await move(alice, f"{ROOT}/a", f"{ROOT}/b") == 0


async def test_a_move_never_widens_readers(service, admin, alice, bob):
    zoe = service.caller("zoe")
    open_item = await admin.write("for all", path=f"{ROOT}/a", readers=["tenant:*"])
    shared = await alice.write("for two", path=f"{ROOT}/a", readers=["user:bob", "user:zoe"])
    own = await alice.write("for none", path=f"{ROOT}/a")
    await settle(admin, f"{ROOT}/narrow", default_readers=["user:bob"])
    await settle(admin, f"{ROOT}/wide", default_readers=["tenant:*"])
    assert await move(admin, f"{ROOT}/a", f"{ROOT}/narrow", open_item) == 1
    assert await move(alice, f"{ROOT}/a", f"{ROOT}/narrow") == 2
    assert list((await bob.get(open_item)).readers) == ["user:bob"]
    assert list((await bob.get(shared)).readers) == ["user:bob"]
    assert list((await alice.get(own)).readers) == []
    for item in (open_item, shared):
        await refused(zoe.get(item), "ITEM_NOT_FOUND")
    assert await zoe.read_ids("for", path=ROOT) == []
    assert await move(alice, f"{ROOT}/narrow", f"{ROOT}/wide") == 2
    assert list((await alice.get(shared)).readers) == ["user:bob"]
    assert list((await alice.get(own)).readers) == []


async def test_a_writer_moves_what_it_can_read_but_not_out_of_its_own_sight(service, admin):
    sally, carl = (service.caller(name, groups=frozenset({"sales"})) for name in ("sally", "carl"))
    await settle(admin, f"{ROOT}/team", writers=["group:sales"], default_readers=["group:sales"])
    await settle(admin, f"{ROOT}/secret", writers=["group:sales"], default_readers=["user:boss"])
    item = await sally.write("shared", path=f"{ROOT}/team/a")
    await refused(move(carl, f"{ROOT}/team", f"{ROOT}/secret"), "NOT_OWNER")
    assert await move(carl, f"{ROOT}/team/a", f"{ROOT}/team/b") == 1
    moved = await sally.get(item)
    assert (moved.path, moved.owner, list(moved.readers)) == (f"{ROOT}/team/b", "user:sally", ["group:sales"])
    # Where nobody is named a writer only owners change items: the target must name it, too.
    await refused(move(carl, f"{ROOT}/team/b", f"{ROOT}/free"), "NOT_OWNER")


async def test_a_thousand_and_one_items_move_together_and_writes_meanwhile_are_kept(service, alice):
    for start in range(0, 1001, 250):
        entries = [memoryfs_pb2.WriteEntry(content=f"entry number {n}") for n in range(start, min(start + 250, 1001))]
        await alice.write_entries(entries, path=f"{ROOT}/from/{start}")
    stop = asyncio.Event()
    meanwhile = []

    async def write_on():
        while not stop.is_set():
            meanwhile.append(await alice.write(f"meanwhile {len(meanwhile)}", path=f"{ROOT}/from/0"))

    writing = asyncio.create_task(write_on())
    moved = await move(alice, f"{ROOT}/from", f"{SEMANTIC}/to")
    stop.set()
    await writing
    there, here = (await stat(alice, f"{SEMANTIC}/to")).usage, (await stat(alice, f"{ROOT}/from")).usage
    assert moved == there.active_count >= 1001
    assert there.active_count + here.active_count == 1001 + len(meanwhile)
    for item in meanwhile:
        assert (await alice.get(item)).path in (f"{ROOT}/from/0", f"{SEMANTIC}/to/0")
    assert await alice.read_ids("entry number 777", path=f"{SEMANTIC}/to", top_k=1) != []


async def test_two_moves_and_an_update_at_once_end_at_one_place(alice):
    item = await alice.write("contended", path=f"{ROOT}/a")
    results = await asyncio.gather(
        move(alice, f"{ROOT}/a", f"{ROOT}/b", item),
        move(alice, f"{ROOT}/a", f"{ROOT}/c", item),
        alice.update(item, path=ROOT, content="contended again"),
        return_exceptions=True,
    )
    assert [remote_error(e).reason for e in results if isinstance(e, grpc.aio.AioRpcError)] == ["ITEM_NOT_FOUND"]
    found = await alice.get(item)
    assert found.content == "contended again"
    assert found.path in (f"{ROOT}/b", f"{ROOT}/c")
    assert found.revision == 3
    assert found.state == item_pb2.STATE_ACTIVE
