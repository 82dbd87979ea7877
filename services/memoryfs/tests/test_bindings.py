"""Bindings: a ceiling for every call of a session, a task or an agent; working memory goes with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from memoryos.memoryfs.v1 import bindings_pb2 as pb
from memoryos.memoryfs.v1 import item_pb2, memoryfs_pb2
from memoryos.memoryfs.v1 import namespace_pb2 as names
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import TokenSigner

from .test_path_settings import refused

ROOT = "/tenants/acme/memory/episodic"
WORKING = "/tenants/acme/memory/working"
_numbers = iter(range(1, 10**9))


@pytest.fixture
def service_token(keys) -> Callable[[str], str]:
    """Give a maker of service tokens, whose issuers MemoryFS knows."""
    known = json.loads(keys.keys_file.read_text())
    made = {name: PrivateKey.generate(name, Use.SERVICE) for name in ("harness", "tool-gateway")}
    KeySet([key.public for key in made.values()]).save(keys.keys_file)
    known["keys"] += json.loads(keys.keys_file.read_text())["keys"]
    keys.keys_file.write_text(json.dumps(known))
    clock = SystemClock()
    return lambda name: TokenSigner(made[name], clock, UlidSource(clock)).service("memoryfs")


@pytest.fixture
async def service(service_token, start_service):
    return await start_service(bindings_poll_s=0.05)


@pytest.fixture
def harness(service, service_token):
    """Give a caller that calls through the harness."""

    def through(name: str = "harness", **fields):
        caller = service.caller("alice", **fields)
        caller._metadata = (*caller._metadata, ("x-memoryos-service-token", service_token(name)))
        return caller

    return through


async def bind(caller, *, ttl_s=0.0, read=(), write=(), request="", owns=False, **target):
    message = pb.BindRequest(
        binding=pb.Binding(read_paths=read, write_paths=write, owns_working_memory=owns, **target),
        request_id=request or f"bind-{next(_numbers)}",
    )
    if ttl_s:
        message.ttl.CopyFrom(Duration(seconds=int(ttl_s), nanos=int(ttl_s % 1 * 1e9)))
    return (await caller.call("Bind", message)).binding


async def unbind(caller, binding_id, request=""):
    message = pb.UnbindRequest(id=binding_id, request_id=request or f"unbind-{next(_numbers)}")
    return (await caller.call("Unbind", message)).forgotten_count


async def bindings(caller, **fields):
    return list((await caller.call("ListBindings", pb.ListBindingsRequest(**fields))).bindings)


async def test_a_bound_task_stays_within_its_places_by_every_method(service, alice):
    inside = await alice.write("inside", path=f"{ROOT}/in")
    outside = await alice.write("outside", path=f"{ROOT}/out")
    task = service.caller("alice", task_id="t1")
    assert set(await task.read_ids()) == {inside, outside}
    await bind(alice, task_id="t1", read=[f"{ROOT}/in"], write=[f"{ROOT}/in/notes"])
    # The next call is bounded, with the same token.
    assert await task.read_ids(path=f"{ROOT}/in") == [inside]
    await refused(task.read(path=ROOT), "PATH_NOT_ALLOWED")
    await refused(task.read("outside", path=f"{ROOT}/out"), "PATH_NOT_ALLOWED")
    await refused(task.list(path=ROOT), "PATH_NOT_ALLOWED")
    await refused(task.get(outside), "ITEM_NOT_FOUND")
    await refused(task.call("Stat", names.StatRequest(path=ROOT)), "PATH_NOT_ALLOWED")
    await refused(task.call("GetPathSettings", names.GetPathSettingsRequest(path=ROOT)), "PATH_NOT_ALLOWED")
    await refused(task.write("x", path=f"{ROOT}/in"), "PATH_NOT_ALLOWED")
    await refused(task.forget(outside, path=f"{ROOT}/out"), "PATH_NOT_ALLOWED")
    await refused(
        task.call("Move", names.MoveRequest(from_path=f"{ROOT}/out", to_path=f"{ROOT}/in/notes", request_id="m")),
        "PATH_NOT_ALLOWED",
    )
    note = await task.write("a note", path=f"{ROOT}/in/notes")
    assert (await task.get(note)).source.task_id == "t1"
    # Others of the user, other tasks and other users are not.
    assert (await alice.get(outside)).id == outside
    assert (await service.caller("alice", task_id="t2").get(outside)).id == outside
    shared = await alice.write("for bob", path=f"{ROOT}/out", readers=["user:bob"])
    assert (await service.caller("bob", task_id="t1").get(shared)).id == shared


async def test_a_binding_grants_nothing(service, alice, bob):
    secret = await bob.write("of bob", path=f"{ROOT}/b")
    await bind(alice, session_id="s1", read=[ROOT], write=[ROOT])
    caller = service.caller("alice", session_id="s1", read_paths=(f"{ROOT}/a",), write_paths=())
    await refused(caller.get(secret), "ITEM_NOT_FOUND")
    await refused(caller.read(path=f"{ROOT}/b"), "PATH_NOT_ALLOWED")
    await refused(caller.write("x", path=f"{ROOT}/a"), "PATH_NOT_ALLOWED")
    await refused(bind(alice, session_id="s2", read=["/tenants/evil/memory/episodic"]), "PATH_NOT_ALLOWED")


async def test_all_bindings_of_a_call_hold_together(service, alice):
    await bind(alice, session_id="s1", read=[f"{ROOT}/a", f"{ROOT}/b"])
    await bind(alice, agent="writer", read=[f"{ROOT}/a/x", f"{ROOT}/c"])
    caller = service.caller("alice", session_id="s1", chain=("writer", "helper"))
    await caller.read(path=f"{ROOT}/a/x/deep")
    for path in (f"{ROOT}/a", f"{ROOT}/b", f"{ROOT}/c", f"{ROOT}/a/xy"):
        await refused(caller.read(path=path), "PATH_NOT_ALLOWED")
    # No write place: no writes.
    await refused(caller.write("x", path=f"{ROOT}/a/x"), "PATH_NOT_ALLOWED")


async def test_nobody_loosens_what_bounds_itself(service, alice, bob, harness):
    binding = await bind(alice, task_id="t1", read=[f"{ROOT}/in"])
    for caller in (
        service.caller("alice", task_id="t1"),
        service.caller("alice", task_id="t1", chain=("bot",)),
        service.caller("alice", chain=("bot",)),
        harness("tool-gateway", task_id="t1"),
    ):
        await refused(bind(caller, task_id="t1", read=[ROOT]), "NOT_ALLOWED")
        await refused(unbind(caller, binding.id), "NOT_ALLOWED")
    in_session = service.caller("alice", session_id="s1")
    await refused(bind(in_session, session_id="s1", read=[ROOT]), "NOT_ALLOWED")
    await refused(unbind(bob, binding.id), "RESOURCE_NOT_FOUND")
    await refused(unbind(service.caller("alice", tenant="evil"), binding.id), "RESOURCE_NOT_FOUND")
    assert await bindings(bob) == []
    # Another user's binding of the same name does not bound this one.
    await bind(bob, session_id="s9", read=[f"{ROOT}/in"])
    await service.caller("alice", session_id="s9").read(path=ROOT)
    on_behalf = harness(task_id="t1", chain=("bot",))
    again = await bind(on_behalf, task_id="t1", read=[f"{ROOT}/in"])
    assert again.id == binding.id
    assert await unbind(on_behalf, binding.id) == 0


async def test_bind_again_renews_under_the_same_name_and_the_list_pages(alice, service):
    first = await bind(alice, session_id="会话", read=[f"{ROOT}/a"], ttl_s=60, request="r")
    assert await bind(alice, session_id="会话", read=[f"{ROOT}/a"], ttl_s=60, request="r") == first
    again = await bind(alice, session_id="会话", read=[f"{ROOT}/b"], ttl_s=600)
    assert (again.id, again.create_time) == (first.id, first.create_time)
    assert again.expire_time.seconds > first.expire_time.seconds + 500
    assert list((await bindings(alice, session_id="会话"))[0].read_paths) == [f"{ROOT}/b"]
    others = [await bind(alice, task_id=f"t{n}", write=[f"{ROOT}/t{n}"]) for n in range(4)]
    page = await alice.call("ListBindings", pb.ListBindingsRequest(page_size=3))
    rest = await alice.call("ListBindings", pb.ListBindingsRequest(page_size=3, page_token=page.next_page_token))
    assert [b.id for b in (*page.bindings, *rest.bindings)] == [*(b.id for b in reversed(others)), first.id]
    assert [b.id for b in await bindings(alice, task_id="t2")] == [others[2].id]
    default = (await bindings(service.caller("alice", task_id="t2")))[0]
    assert default.id == others[3].id, "whoever works in a task finds its places"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"task_id": "t"}, "INVALID_FIELD"),
        ({"read": [ROOT]}, "INVALID_FIELD"),
        ({"task_id": "", "read": [ROOT]}, "INVALID_FIELD"),
        ({"agent": "a", "write": [WORKING], "owns": True}, "INVALID_FIELD"),
        ({"task_id": "t", "read": [ROOT], "ttl_s": 31 * 86_400}, "INVALID_FIELD"),
        ({"task_id": "t", "read": [f"{ROOT}/../x"]}, "PATH_INVALID"),
    ],
)
async def test_what_is_no_binding_is_refused(alice, fields, reason):
    await refused(bind(alice, **fields), reason)


async def test_unbind_forgets_the_working_memory_of_its_task_and_nothing_else(service, alice, harness):
    task = harness(task_id="t1", session_id="s1", chain=("bot",))
    before = await task.write("beside what it will be bound to", path=f"{WORKING}/shared")
    binding = await bind(task, task_id="t1", read=[WORKING, ROOT], write=[f"{WORKING}/t1", ROOT])
    assert binding.owns_working_memory
    notes = [await task.write(f"scratch {n}", path=f"{WORKING}/t1/notes") for n in range(3)]
    doubt = await task.write("perhaps", path=f"{WORKING}/t1", confidence=0.1)
    kept = await task.write("learned for good", path=f"{ROOT}/facts")
    promoted = await task.write("worth keeping", path=f"{WORKING}/t1")
    await alice.call(
        "Move",
        names.MoveRequest(from_path=f"{WORKING}/t1", to_path=f"{ROOT}/facts", ids=[promoted], request_id="keep"),
    )
    by_hand = await alice.write("by the user", path=f"{WORKING}/t1")
    other = await service.caller("alice", task_id="t2").write("of another task", path=f"{WORKING}/t1")
    forgotten = await unbind(task, binding.id, request="end")
    assert forgotten == len(notes) + 1
    assert await unbind(task, binding.id, request="end") == forgotten
    for item in (*notes, doubt):
        await refused(alice.get(item), "ITEM_NOT_FOUND")
    assert {i.id for i in (await alice.list(path=WORKING)).items} == {before, by_hand, other}
    assert not set(await alice.read_ids("scratch", path=WORKING)) & set(notes)
    for item in (kept, promoted):
        assert (await alice.get(item)).path == f"{ROOT}/facts"
    causes = await service.rows("SELECT DISTINCT cause FROM memoryfs.item_changes WHERE item_id = ANY (%s)", notes)
    assert causes == [(18,)]
    assert await bindings(alice) == []
    await refused(unbind(task, binding.id), "RESOURCE_NOT_FOUND")
    assert await service.rows("SELECT count(*) FROM memoryfs.due_bindings") == [(0,)]
    # Without its binding the task is as free as its token.
    await task.read(path=ROOT)


async def test_working_memory_of_a_killed_harness_ends_with_the_time_of_its_binding(service, alice, harness):
    """The harness binds, writes, and is never heard of again."""
    task = harness(task_id="t1", chain=("bot",))
    binding = await bind(task, task_id="t1", read=[WORKING], write=[WORKING], ttl_s=1.5)
    note = await task.write("scratch", path=WORKING)
    assert (await task.get(note)).content == "scratch"
    async with asyncio.timeout(30):
        while await service.rows("SELECT 1 FROM memoryfs.bindings WHERE NOT ended"):  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.05)
    await refused(task.get(note), "ITEM_NOT_FOUND")
    assert await task.read_ids("scratch", path=WORKING) == []
    # The task does not become unbounded by it.
    await refused(task.read(path=ROOT), "PATH_NOT_ALLOWED")
    assert [b.id for b in await bindings(alice)] == [binding.id]
    # Another worker takes the task up again.
    again = await bind(task, task_id="t1", read=[WORKING], write=[WORKING], ttl_s=600)
    assert again.id == binding.id
    second = await task.write("scratch again", path=WORKING)
    assert await unbind(task, binding.id) == 1
    await refused(task.get(second), "ITEM_NOT_FOUND")


async def test_a_renewed_binding_outlives_its_first_time(service, harness):
    task = harness(task_id="t1")
    await bind(task, task_id="t1", read=[WORKING], write=[WORKING], ttl_s=1)
    note = await task.write("scratch", path=WORKING)
    await bind(task, task_id="t1", read=[WORKING], write=[WORKING], ttl_s=600)
    marker = service.caller("alice")
    await bind(marker, session_id="later", read=[WORKING], ttl_s=1.2)
    async with asyncio.timeout(30):
        while len(await bindings(marker)) > 1:  # noqa: ASYNC110 - the database's clock
            await asyncio.sleep(0.05)
    assert (await task.get(note)).content == "scratch"


async def test_a_session_is_free_when_its_binding_is_over_and_takes_its_working_memory_along(service, alice):
    await bind(alice, session_id="s1", read=[WORKING], write=[WORKING], owns=True, ttl_s=1)
    caller = service.caller("alice", session_id="s1")
    note = await caller.write("scratch", path=WORKING, source=item_pb2.Source(session_id="s1"))
    async with asyncio.timeout(30):
        while await service.rows("SELECT 1 FROM memoryfs.bindings"):  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.05)
    await refused(caller.get(note), "ITEM_NOT_FOUND")
    await caller.read(path=ROOT)


async def test_a_thousand_working_items_go_together(service, alice, harness):
    task = harness(task_id="t1")
    binding = await bind(task, task_id="t1", write=[WORKING], read=[WORKING])
    for start in range(0, 1001, 250):
        entries = [memoryfs_pb2.WriteEntry(content=f"note {n}") for n in range(start, min(start + 250, 1001))]
        await task.write_entries(entries, path=f"{WORKING}/{start}")
    assert await unbind(task, binding.id) == 1001
    assert (await alice.call("Stat", names.StatRequest(path=WORKING))).usage.active_count == 0


async def test_a_user_whose_key_is_destroyed_is_bounded_to_nothing(service, alice, start_service):
    await bind(alice, task_id="t1", read=[ROOT], write=[ROOT])
    await service.rows("UPDATE memoryfs.bindings SET sealed = overlay(sealed PLACING '\\x00000000' FROM 2)")
    other = await start_service(bindings_poll_s=60)
    task = other.caller("alice", task_id="t1")
    await refused(task.read(path=ROOT), "PATH_NOT_ALLOWED")
    with pytest.raises(grpc.aio.AioRpcError):
        await task.write("x", path=ROOT)
