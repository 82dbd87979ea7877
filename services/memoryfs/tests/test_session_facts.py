"""What a session sees of memory is known to policy before it sees it, and memory washes nothing off."""

from __future__ import annotations

import asyncio
import itertools

import grpc
import pytest
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, snapshots_pb2, transfer_pb2
from memoryos_core.clock import ManualClock
from memoryos_memoryfs.adapters import seen_facts
from memoryos_memoryfs.adapters.seen_facts import KNOWN_S, SeenFacts
from memoryos_postgres import Database, roles
from memoryos_postgres.session_facts import holder_of
from memoryos_testing.scopes import scope_of

from .conftest import request_id
from .test_transfer import export, send

UNTRUSTED, TRUSTED = item_pb2.TRUST_UNTRUSTED, item_pb2.TRUST_TRUSTED
LIMIT_S = 20
_sessions = itertools.count(1)
PERSON = {"roles": frozenset({"user"})}
READS = {
    "Get": lambda caller, item_id: caller.get(item_id),
    "Read": lambda caller, item_id: caller.read("the page"),
    "List": lambda caller, item_id: caller.list(),
    "History": lambda caller, item_id: caller.call("History", lifecycle_pb2.HistoryRequest(id=item_id)),
    "Lineage": lambda caller, item_id: caller.call("Lineage", lifecycle_pb2.LineageRequest(id=item_id)),
    "Diff": lambda caller, item_id: differences(caller, item_id),
    "Watch": lambda caller, item_id: watched(caller),
    "Export": lambda caller, item_id: export(caller),
    "Dispute": lambda caller, item_id: judged(caller, "Dispute", item_id),
    "Promote": lambda caller, item_id: promoted(caller, item_id),
    "Revert": lambda caller, item_id: reverted(caller, item_id, 1),
    "Merge": lambda caller, item_id: merged_with(caller, item_id),
}
"""Every method whose answer holds content of items."""


def in_session(service, user="alice", **fields):
    """Give an agent of a user in a new session, and the session."""
    session = fields.pop("session_id", f"ses_{next(_sessions)}")
    fields = {"roles": frozenset({"agent", "user"}), "chain": ("helper",), "clearance": 5, **fields}
    return service.caller(user, session_id=session, **fields), session


async def seen(service, holder, tenant="acme") -> set[str]:
    query = "SELECT fact FROM core.session_facts WHERE tenant = %s AND holder = %s AND source LIKE 'service:memoryfs%%'"
    return {fact for (fact,) in await service.rows(query, tenant, holder)}


async def tainted(service, user="alice", **fields):
    """Give an agent in a session that has read something untrusted."""
    agent, _ = in_session(service, user, **fields)
    where = f"{agent.path}/web"
    person = service.caller(user, tenant=fields.get("tenant", "acme"), **PERSON)
    item_id = await person.write(f"a page says {next(_sessions)}", path=where, trust=UNTRUSTED)
    await agent.get(item_id)
    return agent


async def judged(caller, method, item_id):
    kind = {"Dispute": lifecycle_pb2.DisputeRequest, "Promote": lifecycle_pb2.PromoteRequest}[method]
    return await caller.call(method, kind(path=caller.path, id=item_id, reason="r", request_id=request_id()))


async def promoted(caller, item_id):
    evidence = item_pb2.Source(document="other.pdf", page=3)
    return await caller.call(
        "Promote",
        lifecycle_pb2.PromoteRequest(path=caller.path, id=item_id, evidence=evidence, request_id=request_id()),
    )


async def reverted(caller, item_id, revision):
    request = lifecycle_pb2.RevertRequest(path=caller.path, id=item_id, revision=revision, request_id=request_id())
    return await caller.call("Revert", request)


async def merged_with(caller, item_id, content="what both say"):
    other = await caller.write(f"another one {request_id()}")
    request = lifecycle_pb2.MergeRequest(
        path=caller.path, ids=[item_id, other], content=content, request_id=request_id()
    )
    return (await caller.call("Merge", request)).item


async def differences(caller, item_id):
    taken = await caller.call(
        "CreateSnapshot", snapshots_pb2.CreateSnapshotRequest(path=caller.path, request_id=request_id())
    )
    await caller.update(item_id, tags=["changed"])
    return await caller.call("Diff", snapshots_pb2.DiffRequest(path=caller.path, from_snapshot_id=taken.snapshot.id))


async def watched(caller):
    stream = caller.stream("Watch", transfer_pb2.WatchRequest(path=caller.path, from_start=True))
    try:
        while (await asyncio.wait_for(stream.read(), LIMIT_S)).heartbeat:
            pass
    finally:
        stream.cancel()


def holds_items(message, known=frozenset()) -> bool:
    if message.full_name in known:
        return False
    if message.full_name == "memoryos.memoryfs.v1.Item":
        return True
    fields = [field.message_type for field in message.fields if field.message_type is not None]
    return any(holds_items(field, known | {message.full_name}) for field in fields)


def test_every_method_that_answers_with_items_is_tried_here():
    methods = memoryfs_pb2.DESCRIPTOR.services_by_name["MemoryFS"].methods
    assert {method.name for method in methods if holds_items(method.output_type)} | {"Export"} == set(READS)


@pytest.mark.parametrize("method", READS)
async def test_whatever_gives_an_untrusted_item_out_is_known_of_the_session(service, method):
    person = service.caller("alice", **PERSON)
    doubt = {"confidence": 0.5} if method == "Promote" else {}
    item_id = await person.write("the page says so", trust=UNTRUSTED, source={"document": "one.pdf"}, **doubt)
    if method == "Revert":
        await person.update(item_id, content="the page says something else")
    agent, session = in_session(service)
    await READS[method](agent, item_id)
    assert await seen(service, session) == {"untrusted_content"}


async def test_an_answer_that_is_given_again_is_noted_again(service):
    item_id = await service.caller("alice", **PERSON).write("the page says so", trust=UNTRUSTED)
    request = lifecycle_pb2.DisputeRequest(path=service.caller("alice").path, id=item_id, reason="r", request_id="d1")
    for agent, session in (in_session(service), in_session(service)):
        await agent.call("Dispute", request)
        assert await seen(service, session) == {"untrusted_content"}


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, set()),
        ({"user": "alice"}, set()),
        ({"user": "customer-7"}, {"personal_data"}),
        ({"sensitivity": 1}, {"personal_data"}),
        ({"origin": item_pb2.ORIGIN_OBSERVED}, {"untrusted_content"}),
        ({"user": "customer-7", "trust": UNTRUSTED}, {"untrusted_content", "personal_data"}),
    ],
)
async def test_what_an_item_brings_into_a_session(service, fields, facts):
    item_id = await service.caller("alice", **PERSON, clearance=5).write("one thing", **fields)
    agent, session = in_session(service)
    assert (await agent.get(item_id)).content == "one thing"
    assert await seen(service, session) == facts
    assert await seen(service, "user:alice") == set()


async def test_what_is_not_given_out_is_not_noted(service):
    item_id = await service.caller("alice", **PERSON).write("the page says so", trust=UNTRUSTED)
    agent, session = in_session(service, "bob")
    with pytest.raises(grpc.aio.AioRpcError):
        await agent.get(item_id)
    await agent.read("the page")
    await agent.list()
    assert await seen(service, session) == set()


async def test_outside_of_a_session_it_is_known_of_the_user(service):
    item_id = await service.caller("alice", **PERSON).write("the page says so", trust=UNTRUSTED)
    await service.caller("alice").get(item_id)
    assert await seen(service, "user:alice") == {"untrusted_content"}
    assert await seen(service, "user:bob") == set()
    assert await seen(service, "user:alice", "evil") == set()


async def test_what_cannot_be_noted_is_not_given_out(service):
    person = service.caller("alice", **PERSON)
    page, note = await person.write("the page says so", trust=UNTRUSTED), await person.write("my own note")
    await service.rows("REVOKE INSERT ON core.session_facts FROM memoryos_memoryfs")
    agent, session = in_session(service)
    with pytest.raises(grpc.aio.AioRpcError):
        await agent.get(page)
    with pytest.raises(grpc.aio.AioRpcError):
        await judged(agent, "Dispute", page)
    assert (await agent.get(note)).content == "my own note"
    columns = "tenant, holder, fact, source, user_name"
    await service.rows(f"GRANT INSERT ({columns}) ON core.session_facts TO memoryos_memoryfs")
    assert (await agent.get(page)).state == item_pb2.STATE_ACTIVE
    assert await seen(service, session) == {"untrusted_content"}


@pytest.fixture
async def keeping(database):
    clock = ManualClock()
    async with Database(database.section, roles.MEMORYFS) as db:
        yield SeenFacts(db, clock), clock


async def test_a_fact_is_written_once_an_hour(keeping, service, monkeypatch):
    facts, clock = keeping
    scope, wiped = scope_of(), "DELETE FROM core.session_facts"
    for passed_s, written in ((0, True), (KNOWN_S - 1, False), (1, True)):
        clock.advance(passed_s)
        await facts.keep(scope, ["untrusted_content"])
        assert await seen(service, holder_of(scope)) == ({"untrusted_content"} if written else set())
        await service.rows(wiped)
    monkeypatch.setattr(seen_facts, "KNOWN_MAX", 1)
    await facts.keep(scope, ["personal_data"])
    await facts.keep(scope, ["untrusted_content"])  # pushed out by the other, so written again
    assert await seen(service, holder_of(scope)) == {"untrusted_content", "personal_data"}


@pytest.mark.parametrize("count", [1, 5])
async def test_what_an_agent_writes_after_that_is_untrusted_whatever_it_says(service, count):
    agent = await tainted(service)
    entries = [
        memoryfs_pb2.WriteEntry(content=f"the user said {n}", origin=item_pb2.ORIGIN_STATED, trust=TRUSTED)
        for n in range(count)
    ]
    for result in await agent.write_entries(entries):
        assert (await agent.get(result.id)).trust == UNTRUSTED
    reader, session = in_session(service)
    assert (await reader.read("the user said")).hits
    assert await seen(service, session) == {"untrusted_content"}
    clean, _ = in_session(service)
    assert (await clean.get(await clean.write("said elsewhere"))).trust == TRUSTED


@pytest.mark.parametrize(
    "fields",
    [
        {"chain": ("helper",), "roles": frozenset({"user"})},
        {"session_id": "ses_x", "roles": frozenset({"user"})},
        {"task_id": "task_x", "roles": frozenset({"user"})},
        {"roles": frozenset({"agent"})},
    ],
)
async def test_only_a_person_outside_of_any_session_keeps_its_word(service, fields):
    person = service.caller("alice", **PERSON)
    page = await person.write("the page says so", trust=UNTRUSTED)
    caller = service.caller("alice", **fields)
    await caller.get(page)
    assert (await caller.get(await caller.write("words of the caller"))).trust == UNTRUSTED
    await person.get(page)
    assert (await person.get(await person.write("words of the person"))).trust == TRUSTED
    other = service.caller("bob", **{**fields, "session_id": ""})
    assert (await other.get(await other.write("words of bob"))).trust == TRUSTED
    evil = service.caller("alice", tenant="evil", **fields)
    assert (await evil.get(await evil.write("words of a namesake"))).trust == TRUSTED


async def test_updates_merges_and_reverts_are_untrusted_too(service):
    person = service.caller("alice", **PERSON)
    ids = [await person.write(f"my own note {n}") for n in range(6)]
    await person.update(ids[2], content="my own note, corrected")
    above = await merged_with(person, ids[4])
    agent = await tainted(service)
    await agent.update(ids[0], content="other words")
    await agent.update(ids[1], tags=["seen"], trust=TRUSTED)
    await reverted(agent, ids[2], 1)
    assert (await merged_with(agent, ids[3])).trust == UNTRUSTED
    assert (await person.get(above.id)).trust == TRUSTED
    for item_id in ids[:3]:
        assert (await person.get(item_id)).trust == UNTRUSTED
    assert (await person.get(ids[5])).trust == TRUSTED


async def test_what_was_made_from_an_item_follows_it(service):
    person = service.caller("alice", **PERSON)
    first = await person.write("one note")
    above = await merged_with(person, first)
    agent = await tainted(service)
    await agent.update(first, tags=["seen"])
    assert (await person.get(above.id)).trust == UNTRUSTED


async def test_saying_it_again_lifts_nothing(service):
    agent = await tainted(service)
    first = await agent.write("The gate code is 4711", source={"document": "one.pdf"}, confidence=0.9)
    clean, _ = in_session(service)
    (again,) = await clean.write_entries(
        [
            memoryfs_pb2.WriteEntry(
                content="The gate code is 4711", source={"document": "two.pdf"}, trust=TRUSTED, confidence=0.9
            )
        ]
    )
    assert again.outcome == memoryfs_pb2.WRITE_OUTCOME_CORROBORATED
    assert (again.id, (await clean.get(first)).trust) == (first, UNTRUSTED)


async def test_a_person_lets_it_be_trusted_and_no_agent_does(service):
    agent = await tainted(service)
    item_id = await agent.write("The gate code is 4711")
    clean, _ = in_session(service)
    await clean.update(item_id, trust=TRUSTED)
    assert (await agent.get(item_id)).trust == UNTRUSTED
    person = service.caller("alice", **PERSON)
    await person.update(item_id, trust=TRUSTED)
    assert (await person.get(item_id)).trust == TRUSTED


@pytest.mark.parametrize("there", [False, True])
async def test_an_import_in_such_a_session_is_untrusted(service, there):
    person = service.caller("alice", tenant="acme" if there else "evil", **PERSON)
    caller = await tainted(service, tenant="acme" if there else "evil", chain=(), roles=frozenset({"user"}))
    if there:
        item_id = await person.write("my own note", path=f"{person.path}/a")
        sent = await export(person, path=f"{person.path}/a")
        await person.update(item_id, content="changed since")
    else:
        source = service.caller("alice", **PERSON)
        item_id = await source.write("my own note", path=f"{source.path}/a")
        sent = await export(source, path=f"{source.path}/a")
    await send(caller, sent, path=f"{caller.path}/a", conflict=transfer_pb2.IMPORT_CONFLICT_REPLACE)
    item = await person.get(item_id)
    assert (item.content, item.trust) == ("my own note", UNTRUSTED)
