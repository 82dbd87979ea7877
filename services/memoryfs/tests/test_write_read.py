"""What was written is read back at once: by words, by meaning, by name, newest first."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, memoryfs_pb2
from memoryos.type.v1 import common_pb2

JULY = datetime(2025, 7, 1, tzinfo=UTC)


def stamp(at: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(at)
    return message


async def test_write_read_and_forget_of_the_design(alice):
    path = "/tenants/acme/memory/episodic"
    (written,) = await alice.write_entries(
        [
            memoryfs_pb2.WriteEntry(
                content="客户 A 确认了 Q3 交付计划", user="user_123", valid_from=stamp(JULY), confidence=0.92
            )
        ],
        path=path,
    )
    other = await alice.write("客户 A 的 Q3 交付计划另有一份草稿", path=path, user="user_124")
    response = await alice.read("Q3 交付计划", path=path, top_k=5, filter=filter_pb2.Filter(users=["user_123"]))
    (hit,) = response.hits
    assert hit.item.id == written.id
    assert hit.item.content == "客户 A 确认了 Q3 交付计划"
    assert hit.item.user == "user_123"
    assert hit.item.confidence == 0.92
    assert hit.item.valid_from.ToDatetime(UTC) == JULY
    assert 0.3 < hit.score <= 1
    assert hit.details.dense > 0.3
    assert hit.details.lexical > 0.3

    assert await alice.forget(written.id, path=path) == 1
    assert await alice.read_ids("Q3 交付计划", path=path) == [other]
    with pytest.raises(grpc.aio.AioRpcError) as wrong:
        await alice.forget(other, path="/tenants/acme/memory/semantic")
    assert wrong.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_rare_word_is_found_right_after_the_write(alice):
    wanted = await alice.write("The gearbox WR-1024 hums at 40 Hz")
    await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"note number {n} about the line") for n in range(20)])
    response = await alice.read("WR-1024", top_k=3)
    assert response.hits[0].item.id == wanted
    assert response.hits[0].item.content == "The gearbox WR-1024 hums at 40 Hz"
    assert response.exactness == memoryfs_pb2.EXACTNESS_EXACT
    assert not response.degradations
    item = await alice.get(wanted)
    assert item == response.hits[0].item
    assert item.path == "/tenants/acme/memory/episodic"
    assert item.owner == "user:alice"
    assert item.state == item_pb2.STATE_ACTIVE
    assert item.embed_state == item_pb2.EMBED_STATE_DONE
    assert item.embedding_model == "hash-64"
    assert item.revision == 1
    assert item.etag


async def test_meaning_alone_finds_an_item_without_a_common_word(alice, service):
    """The two vectors are near each other; the two texts share no word."""
    near = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)
    wanted = (await alice.write_entries([memoryfs_pb2.WriteEntry(content="abc def", embedding=near)]))[0].id
    await alice.write("another thing entirely")
    response = await alice.read("ghi jkl", embedding=near, top_k=1)
    assert [hit.item.id for hit in response.hits] == [wanted]
    assert response.hits[0].details.dense == pytest.approx(1.0, abs=1e-3)


async def test_every_field_comes_back_as_it_was_written(alice):
    attributes = {"none": None, "deep": {"a": [1, 2]}, "int": 2**53 + 1, "yes": True, "text": "客户"}
    entry = memoryfs_pb2.WriteEntry(
        content="VIP customers go first",
        attributes_json=json.dumps(attributes).encode(),
        tags=["vip", "pricing", "vip"],
        user="u7",
        readers=["group:sales-east", "user:bob"],
        sensitivity=0,
        trust=item_pb2.TRUST_UNTRUSTED,
        source=item_pb2.Source(session_id="ses-1", message_ids=["m1", "m2"], document="Handbuch.pdf", page=3),
        origin=item_pb2.ORIGIN_OBSERVED,
        confidence=0.85,
        importance=0.75,
        valid_from=stamp(JULY),
        valid_to=stamp(JULY + timedelta(days=30)),
        expire_time=stamp(datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)),
        event_key=item_pb2.EventKey(subject="customer A", scope="华东区", condition="VIP"),
    )
    (result,) = await alice.write_entries([entry], path="/tenants/acme/memory/semantic/销售/Q3")
    item = await alice.get(result.id)
    assert json.loads(item.attributes_json) == attributes
    assert list(item.tags) == ["vip", "pricing"]
    assert list(item.readers) == ["group:sales-east", "user:bob"]
    assert item.source == entry.source
    assert item.event_key == entry.event_key
    for name in ("user", "trust", "origin", "confidence", "importance", "valid_from", "valid_to", "expire_time"):
        assert getattr(item, name) == getattr(entry, name), name
    assert item.path == "/tenants/acme/memory/semantic/销售/Q3"
    assert item.create_time == item.update_time


async def test_task_and_agents_come_from_the_token_not_from_the_request(service):
    agent = service.caller("alice", chain=("planner", "writer"), task_id="task_1", session_id="ses_1")
    stated = item_pb2.Source(task_id="task_forged", agent_chain=["boss"], call_id="call_9")
    item = await agent.get(await agent.write("a fact", source=stated))
    assert item.source.task_id == "task_1"
    assert list(item.source.agent_chain) == ["planner", "writer"]
    assert item.source.call_id == "call_9"
    assert item.owner == "user:alice"


async def test_below_the_gate_is_a_candidate_that_only_its_owner_lists(alice, bob):
    entry = memoryfs_pb2.WriteEntry(content="maybe the pump is broken", confidence=0.5, readers=["user:bob"])
    (result,) = await alice.write_entries([entry])
    assert result.gated
    assert result.state == item_pb2.STATE_CANDIDATE
    assert await alice.read_ids("pump broken") == []
    assert await alice.read_ids() == []
    assert await alice.list_ids() == []
    assert await alice.list_ids(state=item_pb2.STATE_CANDIDATE) == [result.id]
    assert await bob.list_ids(state=item_pb2.STATE_CANDIDATE) == []
    item = await alice.get(result.id)
    left = item.expire_time.ToDatetime(UTC) - item.create_time.ToDatetime(UTC)
    assert left == timedelta(hours=24)
    with pytest.raises(grpc.aio.AioRpcError) as hidden:
        await bob.get(result.id)
    assert hidden.value.code() is grpc.StatusCode.NOT_FOUND


async def test_confidence_is_capped_by_origin(alice):
    concluded = await alice.write("so it must be B", origin=item_pb2.ORIGIN_INFERRED, confidence=1.0)
    said = await alice.write("it is B")
    inferred, stated = await alice.get(concluded), await alice.get(said)
    assert inferred.confidence == 0.9
    assert inferred.trust == item_pb2.TRUST_UNTRUSTED
    assert stated.confidence == 1.0
    assert stated.trust == item_pb2.TRUST_TRUSTED


@pytest.mark.parametrize("query", ["", " ", "\t\n", "\u200b", "\ufeff \u00ad", "\u2003"])
async def test_a_query_of_nothing_gives_the_newest(alice, query):
    ids = [await alice.write(f"entry {n}") for n in range(4)]
    assert await alice.read_ids(query, top_k=3) == ids[:0:-1]


async def test_a_query_of_stop_words_still_finds(alice):
    wanted = await alice.write("to be or not to be")
    assert (await alice.read_ids("to be or not", top_k=1)) == [wanted]


async def test_identical_text_scores_near_one_and_passes_a_high_threshold(alice):
    text = "The press in hall 3 makes 412 parts an hour"
    wanted = await alice.write(text)
    await alice.write("Lunch is at noon")
    response = await alice.read(text, min_score=0.9)
    assert [hit.item.id for hit in response.hits] == [wanted]
    assert response.hits[0].score > 0.97


async def test_min_score_leaves_out_what_is_below(alice):
    await alice.write("completely unrelated words")
    assert await alice.read_ids("zebra crossing", min_score=0.9) == []


async def test_ten_hits_when_top_k_is_not_given(alice):
    await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"part number {n}") for n in range(15)])
    assert len(await alice.read_ids("part number")) == 10
    assert len(await alice.read_ids("part number", top_k=12)) == 12


async def test_filters_are_all_applied(alice):
    async def write(text: str, **fields):
        return await alice.write(text, **fields)

    a = await write("alpha report", tags=["x", "y"], user="u1", confidence=0.95, valid_from=stamp(JULY))
    b = await write("alpha report", tags=["x"], user="u2", confidence=0.85, valid_from=stamp(JULY + timedelta(days=1)))
    c = await write("alpha report", tags=["z"], user="u1", confidence=0.81, valid_from=stamp(JULY + timedelta(days=2)))
    half_open = common_pb2.TimeRange(start=stamp(JULY), end=stamp(JULY + timedelta(days=2)))
    cases = [
        (filter_pb2.Filter(tags_all=["x", "y"]), {a}),
        (filter_pb2.Filter(tags_any=["y", "z"]), {a, c}),
        (filter_pb2.Filter(users=["u1"]), {a, c}),
        (filter_pb2.Filter(users=["u1"], tags_any=["x"]), {a}),
        (filter_pb2.Filter(valid_from=half_open), {a, b}),
        (filter_pb2.Filter(min_confidence=0.85), {a, b}),
        (filter_pb2.Filter(create_time=common_pb2.TimeRange(end=stamp(JULY))), set()),
        (filter_pb2.Filter(tags_all=["nobody"]), set()),
    ]
    for where, expected in cases:
        assert set(await alice.read_ids("alpha", filter=where)) == expected, where
        assert set(await alice.read_ids(filter=where)) == expected, where
        assert set(await alice.list_ids(filter=where)) == expected, where


async def test_a_filter_is_applied_before_top_k(alice):
    """FAULTS: filter after top-k gives too few; here one of 301 matches, and it is the least similar."""
    entries = [memoryfs_pb2.WriteEntry(content=f"alpha beta gamma {n}") for n in range(300)]
    await alice.write_entries(entries)
    wanted = await alice.write("nothing in common", tags=["one"])
    assert await alice.read_ids("alpha beta gamma", top_k=1, filter=filter_pb2.Filter(tags_all=["one"])) == [wanted]


async def test_expired_items_are_in_no_answer(start_service):
    from memoryos_core.clock import SystemClock

    class Shifted(SystemClock):
        shift = timedelta()

        def now(self):
            return super().now() + self.shift

    clock = Shifted()
    service = await start_service(clock=clock)
    alice = service.caller("alice")
    short = (await alice.write_entries([memoryfs_pb2.WriteEntry(content="short lived", ttl={"seconds": 60})]))[0].id
    long = await alice.write("long lived")
    assert set(await alice.read_ids("lived")) == {short, long}
    clock.shift = timedelta(seconds=61)
    assert await alice.read_ids("lived") == [long]
    assert await alice.read_ids() == [long]
    assert await alice.list_ids() == [long]
    for method in (alice.get, alice.forget):
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await method(short)
        assert gone.value.code() is grpc.StatusCode.NOT_FOUND


async def test_asking_for_k_where_k_are_readable_gives_k(start_service):
    """Rows in the index that the truth no longer serves take no places away (I1)."""
    from memoryos_core.clock import SystemClock

    class Shifted(SystemClock):
        shift = timedelta()

        def now(self):
            return super().now() + self.shift

    clock = Shifted()
    service = await start_service(clock=clock, recall_depth=20)
    alice = service.caller("alice")
    entries = [memoryfs_pb2.WriteEntry(content="alpha beta gamma", ttl={"seconds": 60}) for _ in range(60)]
    await alice.write_entries(entries)
    lasting = {await alice.write(f"delta {n}") for n in range(5)}
    clock.shift = timedelta(seconds=61)
    assert set(await alice.read_ids("alpha beta gamma", top_k=5)) == lasting


async def test_sensitivity_needs_clearance_everywhere(service):
    writer, low = service.caller("alice", clearance=5), service.caller("bob", clearance=2)
    high = service.caller("bob", clearance=3)
    secret = await writer.write("the merger plan", sensitivity=3, readers=["user:bob"])
    plain = await writer.write("the merger lunch", readers=["user:bob"])
    assert set(await high.read_ids("merger")) == {secret, plain}
    assert await low.read_ids("merger") == [plain]
    assert await low.read_ids() == [plain]
    assert await low.list_ids() == [plain]
    with pytest.raises(grpc.aio.AioRpcError) as hidden:
        await low.get(secret)
    assert hidden.value.code() is grpc.StatusCode.NOT_FOUND


async def test_pages_cover_everything_once_and_are_bound_to_caller_and_filter(alice, bob):
    ids = [
        result.id
        for result in await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"n {n}") for n in range(25)])
    ]
    seen, token = [], ""
    while True:
        page = await alice.list(page_size=7, page_token=token)
        seen += [item.id for item in page.items]
        token = page.next_page_token
        if not token:
            break
    assert sorted(seen) == sorted(ids)
    assert seen == sorted(ids, reverse=True)
    token = (await alice.list(page_size=7)).next_page_token
    for caller, fields in (
        (bob, {}),
        (alice, {"filter": filter_pb2.Filter(tags_all=["x"])}),
        (alice, {"path": "/tenants/acme/memory/semantic"}),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.list(page_size=7, page_token=token, **fields)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_vectors_of_another_model_or_length_are_refused(alice):
    for embedding in (
        memoryfs_pb2.Embedding(model="hash-65", values=[1.0] * 64),
        memoryfs_pb2.Embedding(model="hash-64", values=[1.0] * 63),
        memoryfs_pb2.Embedding(model="hash-64", values=[0.0] * 64),
        memoryfs_pb2.Embedding(model="hash-64", values=[float("inf")] + [0.0] * 63),
    ):
        for call in (alice.write("x y", embedding=embedding), alice.read("x y", embedding=embedding)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert await alice.list_ids() == []


async def test_one_bad_entry_of_a_batch_keeps_nothing(alice):
    good = memoryfs_pb2.WriteEntry(content="good")
    for bad in (
        memoryfs_pb2.WriteEntry(),
        memoryfs_pb2.WriteEntry(content="x", readers=["tenant:*"]),
        memoryfs_pb2.WriteEntry(content="x", valid_from=stamp(JULY), valid_to=stamp(JULY)),
        memoryfs_pb2.WriteEntry(content="x", expire_time=stamp(JULY)),
        memoryfs_pb2.WriteEntry(id="mem_01ARZ3NDEKTSV4RRFFQ69G5FAV", content="x"),
    ):
        with pytest.raises(grpc.aio.AioRpcError):
            await alice.write_entries([good, bad])
    assert await alice.list_ids() == []


async def test_reads_are_audited_with_what_they_gave_and_what_they_asked_in_vain(alice, bob, service):
    item_id = await alice.write("the private note")
    await alice.read("private note")
    await alice.read("nothing here matches", min_score=1.0)
    with pytest.raises(grpc.aio.AioRpcError):
        await bob.get(item_id)
    rows = await service.rows("SELECT user_name, kind, method, outcome, target_ids FROM core.audit ORDER BY seq")
    service_name = "memoryos.memoryfs.v1.MemoryFS"
    assert rows == [
        ("alice", "MEMORY_WRITE", f"{service_name}/Write", "OK", [item_id]),
        ("alice", "MEMORY_READ", f"{service_name}/Read", "OK", [item_id]),
        ("alice", "MEMORY_READ", f"{service_name}/Read", "OK", None),
        ("bob", "MEMORY_READ", f"{service_name}/Get", "ERROR", [item_id]),
    ]


async def test_changes_asked_in_vain_are_audited(alice, bob, service):
    """I9: ids of others are not tried out unseen by Forget, Restore or an update."""
    item_id = await alice.write("the private note")
    for attempt in (bob.forget(item_id), bob.restore(item_id), bob.update(item_id, content="mine")):
        with pytest.raises(grpc.aio.AioRpcError):
            await attempt
    with pytest.raises(grpc.aio.AioRpcError):
        await alice.restore(item_id)
    rows = await service.rows(
        "SELECT user_name, method, outcome, reason, target_ids FROM core.audit WHERE outcome <> 'OK' ORDER BY seq"
    )
    assert [(user, method.rsplit("/")[-1], outcome, reason, ids) for user, method, outcome, reason, ids in rows] == [
        ("bob", "Forget", "ERROR", "ITEM_NOT_FOUND", [item_id]),
        ("bob", "Restore", "ERROR", "ITEM_NOT_FOUND", [item_id]),
        ("bob", "Write", "ERROR", "ITEM_NOT_FOUND", [item_id]),
        ("alice", "Restore", "ERROR", "ITEM_STATE", [item_id]),
    ]


async def test_a_batch_keeps_each_entrys_own_fields(alice):
    """Entries with and without each optional field in one statement over arrays."""
    keys = [item_pb2.EventKey(subject=f"s{n}") if n % 2 else None for n in range(12)]
    entries = [
        memoryfs_pb2.WriteEntry(
            content=f"row {n}, with 'quotes', {{braces}} and \\ back",
            event_key=keys[n],
            tags=[f"t{n}", "both"][: n % 3],
            user=f"u{n}" if n % 4 else "",
            readers=["user:bob", "group:g"][: n % 3],
            valid_to=stamp(datetime.now(UTC) + timedelta(days=n + 1)) if n % 2 else None,
            confidence=0.85 + n / 100,
            ttl={"seconds": 3600} if n % 5 == 0 else None,
        )
        for n in range(12)
    ]
    results = await alice.write_entries(entries)
    for entry, result in zip(entries, results, strict=True):
        item = await alice.get(result.id)
        assert (item.content, item.event_key, item.user) == (entry.content, entry.event_key, entry.user)
        assert (list(item.tags), list(item.readers)) == (list(entry.tags), list(entry.readers))
        assert item.confidence == pytest.approx(entry.confidence, abs=0)
        assert item.valid_to == entry.valid_to
        assert item.HasField("expire_time") == entry.HasField("ttl")
    changed = [memoryfs_pb2.WriteEntry(id=result.id, importance=0.25) for result in results]
    await alice.write_entries(changed)
    for entry, result in zip(entries, results, strict=True):
        item = await alice.get(result.id)
        assert (item.importance, item.event_key, list(item.tags)) == (0.25, entry.event_key, list(entry.tags))


async def test_answers_end_before_they_are_too_large(alice):
    text = "large " * 15_000
    for start in range(0, 100, 25):
        await alice.write_entries([memoryfs_pb2.WriteEntry(content=f"{text} {start + n}") for n in range(25)])
    response = await alice.read("large", top_k=200)
    assert 30 < len(response.hits) < 50
    assert response.exactness == memoryfs_pb2.EXACTNESS_TRUNCATED
    seen, token = [], ""
    while True:
        page = await alice.list(page_size=500, page_token=token)
        seen += [item.id for item in page.items]
        token = page.next_page_token
        if not token:
            break
    assert len(seen) == len(set(seen)) == 100
