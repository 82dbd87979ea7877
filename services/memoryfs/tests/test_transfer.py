"""Export and Import: a round trip loses no field, and nothing goes in that Write would refuse."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, transfer_pb2
from memoryos_core.paths import MemoryPath
from memoryos_grpc.status import remote_error
from memoryos_memoryfs.adapters.pg_past import PgPast
from memoryos_memoryfs.domain.item_lines import line_of, parse_line
from memoryos_postgres import roles
from memoryos_testing.scopes import scope_of

from .conftest import EPISODIC, request_id
from .sessions import shared_of

THERE = "/tenants/evil/memory/episodic/moved"
HOSTILE = "a\u2028b\u0085c\u202eright\u202c \"quoted\" \\ back 'x' OR '1'='1 \U0001f600 e\u0301 ไทย 我们\r\nend\t"


@dataclass
class Exported:
    """An export, put together."""

    files: dict[str, bytearray] = field(default_factory=dict)
    manifest: transfer_pb2.ExportManifest | None = None


async def export(caller, **fields) -> Exported:
    exported, name = Exported(), ""
    fields.setdefault("path", caller.path)
    async for part in caller.stream("Export", transfer_pb2.ExportRequest(**fields)):
        if part.HasField("file"):
            name = part.file
            exported.files[name] = bytearray()
        elif part.HasField("data"):
            exported.files[name] += part.data
        else:
            exported.manifest = part.manifest
    assert exported.manifest is not None
    for file in exported.manifest.files:
        data = bytes(exported.files[file.path])
        assert (file.size_bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        assert file.line_count == data.count(b"\n")
    assert len(exported.manifest.files) == len(exported.files)
    return exported


async def send(caller, exported: Exported, *, path: str = "", lines: bytes | None = None, **fields):
    data = bytes(exported.files["items.jsonl"]) if lines is None else lines
    fields.setdefault("sha256", hashlib.sha256(data).hexdigest())
    fields.setdefault("part", 1)
    request = transfer_pb2.ImportRequest(
        path=path or caller.path, manifest=exported.manifest, lines=data, **{"request_id": request_id(), **fields}
    )
    return await caller.call("Import", request)


def person(service, user: str, *roles: str):
    """A person of the tenant to which things are moved."""
    return service.caller(user, tenant="evil", roles=frozenset({"user", *roles}))


async def refused(call) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return remote_error(caught.value).reason


def comparable(item: item_pb2.Item) -> item_pb2.Item:
    """An item without what the place decides."""
    copy = item_pb2.Item()
    copy.CopyFrom(item)
    copy.path = copy.path.rpartition("/memory/")[2].replace("episodic/moved", "episodic")
    return copy


async def full_item(caller, content: str = HOSTILE, *, keyed: bool = True) -> str:
    entry = memoryfs_pb2.WriteEntry(
        content=content,
        attributes_json=b'{"n":9007199254740993,"f":0.1,"long":"' + b"x" * 400 + b'","\\u2028":[null,{"a":true}]}',
        tags=["a", "标签"],
        user="u-甲",
        sensitivity=0,
        trust=item_pb2.TRUST_UNTRUSTED,
        source=item_pb2.Source(session_id="s1", message_ids=["m1", "m2"], document="文件.pdf", page=7, call_id="c"),
        origin=item_pb2.ORIGIN_OBSERVED,
        confidence=0.91,
        importance=0.123456789,
        event_key=item_pb2.EventKey(subject="主体", scope="s", condition="c"),
        pinned=True,
    )  # fmt: skip
    entry.valid_from.FromJsonString("1999-12-31T23:59:59.999999Z")
    entry.valid_to.FromJsonString("2199-12-31T23:59:59.999999Z")
    if not keyed:
        entry.ClearField("event_key")
    (result,) = await caller.write_entries([entry])
    return result.id


async def test_a_round_trip_into_another_tenant_loses_no_field(service):
    alice, there = service.caller("alice"), person(service, "alice")
    ids = [
        await full_item(alice),
        await alice.write("plain", path=f"{alice.path}/below"),
        await full_item(alice, "2", keyed=False),
    ]
    await alice.update(ids[0], content="corrected " + HOSTILE)
    doubtful = await alice.write("doubtful", confidence=0.1)
    exported = await export(alice, path=EPISODIC, with_vectors=True)
    assert exported.manifest.item_count == 4
    answer = await send(there, exported, path=THERE)
    assert (answer.created_count, answer.skipped_count, answer.pending_count) == (4, 0, 0)
    for item_id in (*ids, doubtful):
        assert comparable(await there.get(item_id)) == comparable(await alice.get(item_id))
    hits = await there.read("corrected", path=THERE)
    assert hits.hits[0].item.id == ids[0]
    back = await export(there, path=THERE, with_vectors=True)
    assert placeless(back) == placeless(exported)


def placeless(exported: Exported) -> dict[str, bytes]:
    """Every line by its item, without the place."""
    lines = bytes(exported.files["items.jsonl"]).split(b"\n")[:-1]
    items = {item.id: (item, vector) for item, vector in map(parse_line, lines)}
    return {
        item_id: line_of(replace(item, payload=replace(item.payload, path=MemoryPath.parse(THERE))), vector)
        for item_id, (item, vector) in items.items()
    }


async def test_an_import_sent_again_gives_its_first_answer_and_another_one_skips_what_is_equal(service):
    alice, there = service.caller("alice"), person(service, "alice")
    await full_item(alice)
    exported = await export(alice)
    first = await send(there, exported, path=THERE, request_id="once")
    assert await send(there, exported, path=THERE, request_id="once") == first
    assert (await send(there, exported, path=THERE)).skipped_count == 1


async def test_another_item_with_the_id_refuses_the_part_or_is_replaced_when_asked(service):
    alice, there = service.caller("alice"), person(service, "alice")
    item_id = await full_item(alice)
    exported = await export(alice)
    await send(there, exported, path=THERE)
    await there.update(item_id, path=THERE, content="changed there")
    fresh = await alice.write("not there yet")
    exported = await export(alice)
    assert await refused(send(there, exported, path=THERE)) == "ALREADY_EXISTS"
    assert fresh not in await there.list_ids(path=THERE)
    answer = await send(there, exported, path=THERE, conflict=transfer_pb2.IMPORT_CONFLICT_REPLACE)
    assert (answer.created_count, answer.replaced_count) == (1, 1)
    item = await there.get(item_id)
    assert (item.revision, item.content) == (3, HOSTILE)


async def test_history_comes_along_when_asked(service):
    alice, there = service.caller("alice"), person(service, "alice")
    item_id = await alice.write("one")
    await alice.update(item_id, content="two")
    await alice.update(item_id, content="three")
    exported = await export(alice, with_history=True, with_vectors=True)
    lines = [json.loads(line) for line in bytes(exported.files["items.jsonl"]).split(b"\n")[:-1]]
    assert [(line["revision"], line["content"]) for line in lines] == [(1, "one"), (2, "two"), (3, "three")]
    assert all(line["vector"] for line in lines)
    assert (await send(there, exported, path=THERE)).created_count == 1
    assert (await there.get(item_id)).revision == 3
    again = await export(there, path=THERE, with_history=True)
    assert [json.loads(line)["content"] for line in bytes(again.files["items.jsonl"]).split(b"\n")[:-1]] == [
        "one", "two", "three"
    ]  # fmt: skip


async def test_an_export_is_of_one_instant_and_of_what_its_caller_may_read(alice, bob):
    shared = await alice.write("shared", readers=["user:bob"])
    await alice.write("private")
    await alice.write("secret", readers=["user:bob"], sensitivity=5)
    await alice.write("doubt", readers=["user:bob"], confidence=0.2)
    gone = await alice.write("gone", readers=["user:bob"])
    await alice.forget(gone)
    exported = await export(bob, path=EPISODIC)
    lines = bytes(exported.files["items.jsonl"]).split(b"\n")[:-1]
    assert [json.loads(line)["id"] for line in lines] == [shared]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda line: {**line, "id": "mem_x"}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "content": ""}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "content": "x" * 100_001}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "tags": ["a b\u0000"]}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "state": "FORGOTTEN"}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "confidence": 2}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "format": 99}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "path": "/tenants/acme/memory/semantic"}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "path": "/tenants/acme/memory/episodic/../x"}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "attributes_json": '{"a":1,"a":2}'}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "create_time": "2020-01-01T00:00:00"}, "IMPORT_CORRUPT"),
        (lambda line: {**line, "owner": "user:root"}, "NOT_OWNER"),
        (lambda line: {**line, "readers": ["tenant:*"]}, "READERS_TOO_WIDE"),
        (lambda line: {k: v for k, v in line.items() if k != "etag"}, "IMPORT_CORRUPT"),
    ],
)
async def test_what_write_would_refuse_is_refused_and_nothing_of_the_part_is_kept(service, spoil, reason):
    alice, there = service.caller("alice"), person(service, "alice")
    await alice.write("one")
    await alice.write("two")
    exported = await export(alice)
    good, other = [json.loads(line) for line in bytes(exported.files["items.jsonl"]).split(b"\n")[:-1]]
    lines = "".join(json.dumps(line) + "\n" for line in (good, spoil(other))).encode()
    assert await refused(send(there, exported, path=THERE, lines=lines)) == reason
    assert await there.list_ids(path=THERE) == []


async def test_a_part_that_was_cut_or_changed_on_its_way_is_refused(service):
    alice, there = service.caller("alice"), person(service, "alice")
    await alice.write("one")
    exported = await export(alice)
    data = bytes(exported.files["items.jsonl"])
    assert await refused(send(there, exported, path=THERE, sha256="0" * 64)) == "IMPORT_CORRUPT"
    assert await refused(send(there, exported, path=THERE, lines=data[:-1])) == "IMPORT_CORRUPT"


async def test_a_tenant_admin_hands_over_what_others_own(service):
    alice = service.caller("alice")
    admin = person(service, "root", "tenant-admin")
    item_id = await alice.write("hers")
    exported = await export(alice)
    assert (await send(admin, exported, path=THERE)).created_count == 1
    hers = person(service, "alice")
    assert (await hers.get(item_id)).owner == "user:alice"
    assert await admin.list_ids(path=THERE) == []


async def test_people_read_folders_that_no_name_can_leave(alice):
    for user, content in (("u1", "一"), ("../../etc/passwd", "二"), ("u1", "三")):
        await alice.write(content, user=user)
    exported = await export(alice, layout=transfer_pb2.EXPORT_LAYOUT_READABLE)
    assert all(".." not in path and not path.startswith("/") for path in exported.files)
    day = next(path for path in exported.files if path.startswith("u1/episodes/"))
    said = [json.loads(line)["content"] for line in bytes(exported.files[day]).split(b"\n")[:-1]]
    assert said == ["一", "三"]
    assert json.loads(bytes(exported.files["u1/profile.json"]))["item_count"] == 2
    assert "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd/profile.json" in exported.files


async def test_an_export_sends_what_was_there_as_far_as_it_is_readable_when_it_is_sent(service, database_factory):
    alice = service.caller("alice", clearance=5)
    closed, gone, raised, kept = [await alice.write(f"words {n}", readers=["user:bob"]) for n in range(4)]
    database = await database_factory(roles.MEMORYFS)
    past, scope = PgPast(database, shared_of(database, service.keys)), scope_of(user="bob")
    point = await past.point(scope, MemoryPath.parse(alice.path), by_user=False)
    assert set(point.ids) == {closed, gone, raised, kept}
    await alice.update(closed, content="not for bob", update_mask={"paths": ["content", "readers"]})
    await alice.forget(gone)
    await alice.update(raised, content="words of height", sensitivity=5)
    await alice.update(kept, content="later words")
    for history in (False, True):
        found = await past.items(scope, point, point.ids, vectors=False, history=history)
        assert [(one.item.id, one.item.payload.content) for one in found] == [(kept, "words 3")]


async def test_history_in_an_export_tells_nothing_of_the_doubts_of_others(service):
    alice, bob = service.caller("alice", roles=frozenset({"user"})), service.caller("bob")
    item_id = await alice.write("doubtful words", readers=["user:bob"], confidence=0.2)
    request = lifecycle_pb2.PromoteRequest(path=alice.path, id=item_id, request_id=request_id())
    await alice.call("Promote", request)
    for caller, revisions in ((bob, [2]), (alice, [1, 2])):
        exported = await export(caller, path=EPISODIC, with_history=True)
        lines = bytes(exported.files["items.jsonl"]).split(b"\n")[:-1]
        assert [json.loads(line)["revision"] for line in lines] == revisions


async def test_no_agent_imports_and_nobody_beyond_their_reach(service):
    alice = service.caller("alice")
    await alice.write("one")
    exported = await export(alice)
    people = frozenset({"user"})
    agent = service.caller("alice", tenant="evil", roles=people | {"agent"}, chain=("helper",))
    assert await refused(send(agent, exported, path=THERE)) == "NOT_ALLOWED"
    narrow = service.caller("alice", tenant="evil", roles=people, write_paths=(f"{THERE}/below",))
    assert await refused(send(narrow, exported, path=THERE)) == "PATH_NOT_ALLOWED"
    assert await refused(send(person(service, "alice"), exported, path=EPISODIC)) == "PATH_NOT_ALLOWED"
    assert (await send(narrow, exported, path=f"{THERE}/below")).created_count == 1
