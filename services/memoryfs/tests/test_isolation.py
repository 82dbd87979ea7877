"""Nobody reads or changes what is not theirs, on any RPC (I1; FAULTS, isolation and filters)."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, memoryfs_pb2

NOT_FOUND = grpc.StatusCode.NOT_FOUND
DENIED = grpc.StatusCode.PERMISSION_DENIED
INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def assert_invisible(caller, item_id: str, content: str, path: str) -> None:
    """The same denied principal through every RPC."""
    assert item_id not in await caller.read_ids(content, path=path)
    assert item_id not in await caller.read_ids(content, path=path, filter=filter_pb2.Filter(min_confidence=0.0))
    assert item_id not in await caller.read_ids(path=path, top_k=200)
    for state in (item_pb2.STATE_ACTIVE, item_pb2.STATE_CANDIDATE, item_pb2.STATE_FORGOTTEN):
        assert item_id not in await caller.list_ids(path=path, state=state)
    assert await code_of(caller.get(item_id)) is NOT_FOUND
    assert await code_of(caller.update(item_id, path=path, content="mine now")) is NOT_FOUND
    assert await code_of(caller.forget(item_id, path=path)) is NOT_FOUND
    assert await code_of(caller.restore(item_id, path=path)) is NOT_FOUND


async def test_a_private_item_is_invisible_to_another_user_on_every_rpc(alice, bob):
    text = "private note about the merger"
    item_id = await alice.write(text)
    await assert_invisible(bob, item_id, text, bob.path)
    await alice.forget(item_id)
    await assert_invisible(bob, item_id, text, bob.path)
    await alice.restore(item_id)
    assert (await alice.get(item_id)).content == text


async def test_another_tenants_path_is_denied_before_existence_is_looked_at(alice, mallory):
    item_id = await alice.write("ours")
    for path in (alice.path, f"{alice.path}/nothing/there"):
        assert await code_of(mallory.read("ours", path=path)) is DENIED
        assert await code_of(mallory.list(path=path)) is DENIED
        assert await code_of(mallory.write("x", path=path)) is DENIED
        assert await code_of(mallory.forget(item_id, path=path)) is DENIED
        assert await code_of(mallory.restore(item_id, path=path)) is DENIED
    await assert_invisible(mallory, item_id, "ours", mallory.path)


async def test_one_request_id_of_two_callers_is_two_requests(service):
    alice, bob, other = (
        service.caller("alice"),
        service.caller("bob"),
        service.caller("alice", tenant="evil"),
    )
    entry = memoryfs_pb2.WriteEntry(content="same request id")
    ids = [(await who.write_entries([entry], request="r1"))[0].id for who in (alice, bob, other)]
    assert len(set(ids)) == 3


async def test_a_label_of_a_user_gives_no_rights(alice, bob):
    item_id = await alice.write("about bob", user="bob", tags=["user:bob"])
    await assert_invisible(bob, item_id, "about bob", bob.path)
    hits = await bob.read_ids("about bob", filter=filter_pb2.Filter(users=["bob"]))
    assert hits == []


async def test_metadata_cannot_move_an_item_to_another_scope(alice, mallory):
    for attributes in (
        b'{"tenant": "evil", "path": "/tenants/evil/memory/episodic", "owner": "user:mallory", "user_id": "mallory"}',
        b'{"acl": ["tenant:*"], "readers": ["user:mallory"], "state": 2, "id": "mem_0"}',
    ):
        item_id = await alice.write("stays here", attributes_json=attributes)
        item = await alice.get(item_id)
        assert item.path == alice.path
        assert item.owner == "user:alice"
        assert list(item.readers) == []
        updated = await alice.update(item_id, attributes_json=attributes)
        assert (await alice.get(updated.id)).path == alice.path
        await assert_invisible(mallory, item_id, "stays here", mallory.path)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("john_doe", "john-doe"),
        ("john_doe", "johnXdoe"),
        ("100%", "100x"),
        ("%", "anything"),
        ("_", "x"),
        ("a", "ab"),
        ("acme", "acme-corp"),
        ("A", "a"),
        ("a.b", "axb"),
        ("[ab]", "a"),
        ("*", "star"),
        ("é", "e"),
        ("x' OR '1'='1", "x"),
        ("{a,b}", "a"),
        ("\\", "\\\\"),
    ],
)
async def test_a_path_means_itself_and_what_is_below_it(alice, mine, theirs):
    base = f"{alice.path}/users"
    own = await alice.write("the same text", path=f"{base}/{mine}")
    below = await alice.write("the same text", path=f"{base}/{mine}/deeper")
    other = await alice.write("the same text", path=f"{base}/{theirs}")
    for found in (
        await alice.list_ids(path=f"{base}/{mine}"),
        await alice.read_ids(path=f"{base}/{mine}"),
        await alice.read_ids("the same text", path=f"{base}/{mine}"),
        await alice.read_ids("same", path=f"{base}/{mine}", filter=filter_pb2.Filter(min_confidence=0.5)),
    ):
        assert set(found) == {own, below}
    assert set(await alice.list_ids(path=base)) == {own, below, other}
    assert await code_of(alice.forget(other, path=f"{base}/{mine}")) is NOT_FOUND
    assert await code_of(alice.update(other, path=f"{base}/{mine}", content="moved?")) is NOT_FOUND


async def test_kinds_are_apart(alice):
    episodic = await alice.write("the text", path="/tenants/acme/memory/episodic")
    semantic = await alice.write("the text", path="/tenants/acme/memory/semantic")
    assert await alice.list_ids(path="/tenants/acme/memory/episodic") == [episodic]
    assert await alice.read_ids("text", path="/tenants/acme/memory/semantic") == [semantic]


@pytest.mark.parametrize(
    "path",
    [
        "/tenants/acme/memory/episodic/",
        "/tenants/acme/memory/episodic//a",
        "/tenants/acme/memory/episodic/../semantic",
        "/tenants/acme/memory/episodic/.",
        "/tenants/acme/memory/other",
        "/tenants/acme/memory",
        "tenants/acme/memory/episodic",
        "/tenants/acme/memory/episodic/a\u200bb",
        "/tenants/acme/memory/episodic/e\u0301",
        "/tenants/acme/memory/episodic/" + "x" * 256,
        "/tenants/acme/memory/episodic/" + "/".join("x" * 21),
        "/",
        "",
    ],
)
async def test_paths_outside_the_grammar_are_refused(alice, path):
    entry = memoryfs_pb2.WriteRequest(path=path, entries=[memoryfs_pb2.WriteEntry(content="x")], request_id="r")
    assert await code_of(alice.call("Write", entry)) is INVALID
    assert await code_of(alice.call("Read", memoryfs_pb2.ReadRequest(path=path, query="x"))) is INVALID
    assert await code_of(alice.call("List", memoryfs_pb2.ListRequest(path=path))) is INVALID


@pytest.mark.parametrize(
    "value", ["x' OR '1'='1", "%", "_", "{a,b}", '"', "\\", "a.b", "$.x", "x'); DROP TABLE memoryfs.items; --", "NULL"]
)
async def test_filter_values_are_values(alice, value):
    await alice.write("an item", tags=["plain"], user="plain")
    for where in (
        filter_pb2.Filter(tags_all=[value]),
        filter_pb2.Filter(tags_any=[value]),
        filter_pb2.Filter(users=[value]),
    ):
        for call in (alice.read_ids("item", filter=where), alice.list_ids(filter=where)):
            try:
                assert await call == []
            except grpc.aio.AioRpcError as error:
                assert error.code() is INVALID  # characters that no label has  # noqa: PT017
    assert len(await alice.list_ids()) == 1


async def test_tags_with_every_allowed_character_are_found_again(alice):
    for tag in ("a:b", "a/b", "a.b", "a_b", "a-b", "a@b", "a+b", "客户", "é"):
        item_id = await alice.write("tagged", tags=[tag])
        assert await alice.list_ids(filter=filter_pb2.Filter(tags_all=[tag])) == [item_id]


async def test_readers_see_what_was_shared_with_them_and_cannot_change_it(service, alice):
    sales = service.caller("carol", groups=frozenset({"sales-east"}))
    stranger = service.caller("dave", groups=frozenset({"sales-west"}))
    text = "quote for the east"
    item_id = await alice.write(text, readers=["group:sales-east"])
    assert await sales.read_ids(text) == [item_id]
    assert await sales.read_ids() == [item_id]
    assert await sales.list_ids() == [item_id]
    assert (await sales.get(item_id)).content == text
    for call in (sales.update(item_id, content="cheaper"), sales.forget(item_id)):
        assert await code_of(call) is DENIED
    await assert_invisible(stranger, item_id, text, stranger.path)
    await alice.update(item_id, readers=["group:sales-west"])
    assert await stranger.read_ids(text) == [item_id]
    await assert_invisible(sales, item_id, text, sales.path)


async def test_nobody_opens_an_item_wider_than_they_may(service, alice):
    admin = service.caller("root", roles=frozenset({"tenant-admin"}))
    for reader in ("tenant:*", "role:auditor", "agent:bob/helper"):
        assert await code_of(alice.write("x", readers=[reader])) is DENIED, reader
    for reader in ("user:bob", "group:any", "role:agent", "agent:alice/helper", "user:alice"):
        assert await code_of(alice.write("x", readers=[reader])) is grpc.StatusCode.OK, reader
    shared = await admin.write("house rules", readers=["tenant:*"])
    assert shared in await alice.read_ids("house rules")


async def test_a_token_of_an_agent_reaches_its_paths_only(service):
    below, beside = "/tenants/acme/memory/episodic/a/b", "/tenants/acme/memory/episodic/a/bc"
    free = service.caller("alice")
    bound = service.caller("alice", chain=("helper",), read_paths=(below,), write_paths=(below,))
    blind = service.caller("alice", chain=("helper",), read_paths=(), write_paths=())
    inside = await free.write("inside", path=f"{below}/deep")
    outside = await free.write("outside", path=beside)
    assert await bound.read_ids("inside", path=below) == [inside]
    assert (await bound.get(inside)).content == "inside"
    for path in (beside, "/tenants/acme/memory/episodic/a", "/tenants/acme/memory/semantic"):
        assert await code_of(bound.read("x", path=path)) is DENIED
        assert await code_of(bound.list(path=path)) is DENIED
        assert await code_of(bound.write("x", path=path)) is DENIED
        assert await code_of(bound.forget(outside, path=path)) is DENIED
    assert await code_of(bound.get(outside)) is NOT_FOUND
    assert await code_of(bound.forget(outside, path=below)) is NOT_FOUND
    for call in (blind.read("x", path=below), blind.write("x", path=below)):
        assert await code_of(call) is DENIED
    assert await code_of(blind.get(inside)) is NOT_FOUND


async def test_a_reader_of_few_among_many_gets_all_of_theirs(service, alice, bob):
    """10,000 rows of B, 5 of A: A asks for 5 and gets 5, though B's are nearer."""
    entries = [memoryfs_pb2.WriteEntry(content=f"alpha beta {n}") for n in range(500)]
    await asyncio.gather(*(bob.write_entries(entries) for _ in range(20)))
    mine = {await alice.write(f"gamma {n}") for n in range(5)}
    response = await alice.read("alpha beta", top_k=5)
    assert {hit.item.id for hit in response.hits} == mine
    assert response.exactness == memoryfs_pb2.EXACTNESS_EXACT
    assert set(await alice.read_ids(top_k=5)) == mine
    assert set(await alice.list_ids()) == mine
    now = (await alice.get(min(mine))).update_time
    for fields in (
        {"filter": filter_pb2.Filter(min_confidence=0.5)},
        {"boosts": memoryfs_pb2.Boosts(recency=1, importance=1, use=1)},
        {"diversity": 0.5},
        {"include_cold": True},
    ):
        for query in ("alpha beta", ""):
            assert set(await alice.read_ids(query, top_k=5, **fields)) == mine, fields
    assert await alice.read_ids("", top_k=5, as_of=now) == [min(mine)]


async def test_parallel_writers_of_two_tenants_do_not_mix(service):
    ours, theirs = service.caller("u", tenant="acme"), service.caller("u", tenant="evil")
    await asyncio.gather(*(who.write(f"{who.path} {n}") for n in range(25) for who in (ours, theirs)))
    for who in (ours, theirs):
        items = (await who.list(page_size=100)).items
        assert len(items) == 25
        assert all(item.path == who.path and item.content.startswith(who.path) for item in items)


async def test_forgetting_in_one_tenant_leaves_the_other(service):
    ours, theirs = service.caller("u", tenant="acme"), service.caller("u", tenant="evil")
    first, second = await ours.write("same content"), await theirs.write("same content")
    await ours.forget(first)
    assert await theirs.read_ids("same content") == [second]
