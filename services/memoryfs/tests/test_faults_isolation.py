"""Kinds of fault in which one reader meets another's memory: each made once here, with what it must not do.

- A job that works beside the calls (a model that merges) reads more than who asked for it may read.
- One session id of two people joins what they said.
- An answer of one method gives an item that the others hide.
- An id that is somebody else's, or another installation's, is taken over by an import.
- Names that look like a pattern, a path or a statement are read as one.
"""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, lifecycle_pb2, memoryfs_pb2, transfer_pb2
from memoryos_grpc.status import remote_error
from memoryos_models.scripted import ScriptedServer

from .conftest import request_id
from .test_merge import ended
from .test_transfer import export, send

pytestmark = pytest.mark.integration
LABELS = ["a-b", "a:b", "a/b", "a.b", "a_b", "a@b", "名字"]
FREE = ["a b", "a'b", 'a"b', "a🙂b", "100%", "x' OR '1'='1", "$.a[*]", "a\\b", "a\u2028b"]


async def refusal(call) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    found = remote_error(caught.value)
    return found.code, found.reason


async def test_a_job_that_asks_a_model_shows_it_nothing_but_what_its_caller_may_read(start_service):
    with ScriptedServer(lambda request: "Both are one plan.") as model:
        service = await start_service(models={"chat_url": model.base_url, "chat_model": "scripted"})
        alice, bob = service.caller("alice"), service.caller("bob")
        mallory = service.caller("mallory", tenant="evil")
        foreign = [await mallory.write(f"plan {n} of evil 绝密") for n in range(3)]
        others = await bob.write("plan of bob 私密")
        ids = [await alice.write(f"plan {n} of alice") for n in range(2)]
        for stranger in (foreign[0], others):
            request = lifecycle_pb2.MergeRequest(path=alice.path, ids=[ids[0], stranger], request_id=request_id())
            assert (await refusal(alice.call("Merge", request)))[1] == "ITEM_NOT_FOUND"
        request = lifecycle_pb2.MergeRequest(path=alice.path, ids=ids, request_id=request_id())
        job = await ended(service, alice, (await alice.call("Merge", request)).job.id)
        assert json.loads(job.result_json)["item"]
        sent = json.dumps(list(model.requests), ensure_ascii=False)
        assert "plan 0 of alice" in sent
        assert "绝密" not in sent
        assert "私密" not in sent


async def test_one_session_id_of_two_people_is_two_conversations(service):
    alice, bob = service.caller("alice"), service.caller("bob")
    source = item_pb2.Source(session_id="session-1", message_ids=["m1"])
    entries = [memoryfs_pb2.WriteEntry(content=f"turn {n} about valves", source=source) for n in range(3)]
    hers = {result.id for result in await alice.write_entries(entries)}
    his = {result.id for result in await bob.write_entries(entries)}
    assert not hers & his
    for caller, own in ((alice, hers), (bob, his)):
        assert set(await caller.read_ids("valves", top_k=50)) == own
        assert set(await caller.list_ids()) == own


async def test_a_stranger_gets_the_same_answer_for_a_foreign_and_for_an_absent_id_everywhere(service):
    alice, bob = service.caller("alice"), service.caller("bob", roles=frozenset({"agent", "user"}))
    hers = await alice.write("only hers")
    absent, further = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV", "mem_01ARZ3NDEKTSV4RRFFQ69G5FAW"

    def calls(item_id: str):
        name = request_id()
        path = bob.path
        yield bob.get(item_id)
        yield bob.forget(item_id)
        yield bob.restore(item_id)
        yield bob.update(item_id, content="mine now")
        yield bob.call("History", lifecycle_pb2.HistoryRequest(id=item_id))
        yield bob.call("Lineage", lifecycle_pb2.LineageRequest(id=item_id))
        yield bob.call("Promote", lifecycle_pb2.PromoteRequest(path=path, id=item_id, request_id=name))
        yield bob.call("Dispute", lifecycle_pb2.DisputeRequest(path=path, id=item_id, request_id=name))
        yield bob.call("Revert", lifecycle_pb2.RevertRequest(path=path, id=item_id, revision=1, request_id=name))
        merge = lifecycle_pb2.MergeRequest(path=path, ids=[item_id, further], content="x", request_id=name)
        yield bob.call("Merge", merge)

    for foreign, missing in zip(calls(hers), calls(absent), strict=True):
        assert await refusal(foreign) == await refusal(missing) == ("NOT_FOUND", "ITEM_NOT_FOUND")
    assert (await alice.get(hers)).revision == 1


@pytest.mark.parametrize("at_once", [1, 6])
async def test_an_import_takes_over_no_id_that_is_there(service, at_once):
    """Ids come with the lines, so they are the caller's to choose; what has the id stays as it is."""
    person = {"roles": frozenset({"user"})}
    alice, bob = service.caller("alice", **person), service.caller("bob", **person)
    own = await bob.write("bob's text")
    exported = await export(bob)
    hers = await alice.write("alice's text")
    line = bytes(exported.files["items.jsonl"]).replace(own.encode(), hers.encode())
    found = await asyncio.gather(*(refusal(send(bob, exported, lines=line)) for _ in range(at_once)))
    assert set(found) == {("ALREADY_EXISTS", "ALREADY_EXISTS")}
    item = await alice.get(hers)
    assert (item.content, item.owner, item.revision) == ("alice's text", "user:alice", 1)
    assert await bob.list_ids() == [own]


async def test_parts_of_one_import_sent_twice_at_once_keep_each_item_once(service):
    bob = service.caller("bob", roles=frozenset({"user"}))
    there = service.caller("bob", tenant="evil", roles=frozenset({"user"}))
    ids = [await bob.write(f"text {n}") for n in range(5)]
    exported = await export(bob)
    lines = bytes(exported.files["items.jsonl"])
    answers = await asyncio.gather(*(send(there, exported, lines=lines) for _ in range(6)), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, grpc.aio.AioRpcError):
            assert remote_error(answer).code in {"ABORTED", "UNAVAILABLE", "ALREADY_EXISTS"}, answer
    assert any(isinstance(answer, transfer_pb2.ImportResponse) for answer in answers)
    assert sorted(await there.list_ids()) == sorted(ids)


@pytest.mark.parametrize("name", LABELS + FREE)
async def test_names_in_labels_sessions_and_attributes_are_names(alice, name):
    label = name if name in LABELS else "label"
    entry = memoryfs_pb2.WriteEntry(
        content="told by somebody",
        tags=[label],
        user=label,
        source=item_pb2.Source(session_id=name, message_ids=[name], document=name),
        attributes_json=json.dumps({name: name, "deep": {name: 1}}).encode(),
        event_key=item_pb2.EventKey(subject=name, scope=name, condition=name),
    )
    (result,) = await alice.write_entries([entry])
    for n in range(3):
        await alice.write(f"not it {n}", tags=["ab"], user="ab", attributes_json=b'{"ab":"ab"}')
    value = filter_pb2.AttributeValue
    for where in (
        filter_pb2.Filter(users=[label]),
        filter_pb2.Filter(tags_any=[label]),
        filter_pb2.Filter(attributes=[filter_pb2.AttributeCondition(path=[name], eq=value(text=name))]),
        filter_pb2.Filter(attributes=[filter_pb2.AttributeCondition(path=["deep", name], eq=value(integer=1))]),
    ):
        assert await alice.list_ids(filter=where) == [result.id]
        assert await alice.read_ids("told", filter=where) == [result.id]
    item = await alice.get(result.id)
    assert (item.user, item.source.session_id, item.event_key.condition) == (label, name, name)
    if name in FREE:
        assert (await refusal(alice.write("x", user=name)))[0] == "INVALID_ARGUMENT"
        assert (await refusal(alice.write("x", tags=[name])))[0] == "INVALID_ARGUMENT"
