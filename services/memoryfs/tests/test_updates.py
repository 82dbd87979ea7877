"""Revisions, etags, masks, retries and callers at the same time."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from memoryos.memoryfs.v1 import filter_pb2, item_pb2, memoryfs_pb2

ABORTED = grpc.StatusCode.ABORTED
INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def code_of(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_an_update_changes_what_it_sets_and_keeps_the_rest(alice):
    entry = memoryfs_pb2.WriteEntry(
        content="lives in Berlin", tags=["home"], user="u7", attributes_json=b'{"n":null,"big":9007199254740993}'
    )
    (first,) = await alice.write_entries([entry])
    before = await alice.get(first.id)
    result = await alice.update(first.id, if_match=first.etag, content="lives in Rome")
    after = await alice.get(first.id)
    assert (result.revision, after.revision) == (2, 2)
    assert result.etag == after.etag != before.etag
    assert after.content == "lives in Rome"
    for name in (
        "tags",
        "user",
        "attributes_json",
        "owner",
        "path",
        "create_time",
        "valid_from",
        "confidence",
        "trust",
    ):
        assert getattr(after, name) == getattr(before, name), name
    assert await alice.read_ids("Rome", top_k=1) == [first.id]
    assert (await alice.read("Berlin")).hits[0].details.lexical == 0


async def test_a_change_of_tags_alone_keeps_the_vector(alice, service):
    near = memoryfs_pb2.Embedding(model="hash-64", values=[1.0] + [0.0] * 63)
    (first,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="abc", embedding=near)])
    calls = service.embedder.calls
    result = await alice.update(first.id, tags=["new"])
    assert result.embed_state == item_pb2.EMBED_STATE_DONE
    assert service.embedder.calls == calls
    assert (await alice.read("zzz", embedding=near)).hits[0].details.dense == pytest.approx(1.0, abs=1e-3)


async def test_a_mask_clears_what_it_names(alice):
    (first,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="x y", tags=["a"], user="u")])
    await alice.update(first.id, update_mask=FieldMask(paths=["tags", "user"]), content="not named, not changed")
    item = await alice.get(first.id)
    assert (list(item.tags), item.user, item.content) == ([], "", "x y")
    for paths in (["content"], ["id"], ["owner"], ["nonsense"]):
        assert await code_of(alice.update(first.id, update_mask=FieldMask(paths=paths))) is INVALID
    assert await code_of(alice.write("new", update_mask=FieldMask(paths=["content"]))) is INVALID


async def test_the_old_revision_is_kept_and_sealed(alice, service):
    item_id = await alice.write("first wording")
    await alice.update(item_id, content="second wording")
    rows = await service.rows(
        "SELECT revision, actor, cause, position('wording'::bytea in sealed) FROM memoryfs.item_revisions"
    )
    assert rows == [(1, "user:alice", 1, 0)]
    assert await service.rows("SELECT revision, cause FROM memoryfs.items") == [(2, 2)]
    assert await service.rows("SELECT count(*) FROM memoryfs.item_vectors") == [(1,)]


async def test_a_stale_etag_is_aborted_and_changes_nothing(alice):
    (first,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="one")])
    await alice.update(first.id, content="two", if_match=first.etag)
    assert await code_of(alice.update(first.id, content="three", if_match=first.etag)) is ABORTED
    assert (await alice.get(first.id)).content == "two"
    assert await code_of(alice.write("new", if_match="x")) is INVALID


async def test_of_updates_from_one_etag_exactly_one_wins(alice):
    (first,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="start")])
    codes = await asyncio.gather(
        *(code_of(alice.update(first.id, content=f"by {n}", if_match=first.etag)) for n in range(6))
    )
    assert sorted(code.name for code in codes) == ["ABORTED"] * 5 + ["OK"]
    assert (await alice.get(first.id)).revision == 2


async def test_opposite_order_of_ids_does_not_deadlock(alice):
    ids = [await alice.write(f"item {n}") for n in range(6)]

    async def update(order) -> None:
        await alice.write_entries([memoryfs_pb2.WriteEntry(id=i, content="changed") for i in order])

    await asyncio.gather(*(update(ids if n % 2 else ids[::-1]) for n in range(8)))
    codes = await asyncio.gather(code_of(update(ids)), code_of(alice.forget(*ids[::-1])))
    assert codes[0] in (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND)  # after or before the forgetting
    assert codes[1] is grpc.StatusCode.OK


async def test_an_id_twice_in_one_call_is_refused(alice):
    item_id = await alice.write("x")
    entries = [memoryfs_pb2.WriteEntry(id=item_id, content=text) for text in ("a", "b")]
    assert await code_of(alice.write_entries(entries)) is INVALID


async def test_a_candidate_is_not_promoted_by_claiming_more(alice):
    (result,) = await alice.write_entries([memoryfs_pb2.WriteEntry(content="doubtful", confidence=0.4)])
    end = (await alice.get(result.id)).expire_time
    updated = await alice.update(result.id, confidence=1.0)
    assert updated.gated
    item = await alice.get(result.id)
    assert item.expire_time == end
    assert await alice.read_ids("doubtful") == []


async def test_doubt_takes_an_item_out_of_memory(alice):
    item_id = await alice.write("once sure")
    result = await alice.update(item_id, confidence=0.3)
    assert result.gated
    assert await alice.read_ids("once sure") == []
    assert await alice.list_ids(state=item_pb2.STATE_CANDIDATE) == [item_id]


async def test_a_retry_gives_the_same_answer_and_no_second_item(alice):
    entries = [memoryfs_pb2.WriteEntry(content=f"kept once {n}") for n in range(3)]
    first = await alice.write_entries(entries, request="r-1")
    assert await alice.write_entries(entries, request="r-1") == first
    assert len(await alice.list_ids()) == 3
    assert await code_of(alice.write_entries(entries[:2], request="r-1")) is ABORTED


async def test_a_retry_of_a_batch_that_is_added_as_it_is_writes_once(alice):
    entries = [memoryfs_pb2.WriteEntry(content=f"kept once {n}") for n in range(9)]
    first = await alice.write_entries(entries, request="r-1")
    assert await alice.write_entries(entries, request="r-1") == first
    assert len(await alice.list_ids()) == 9


async def test_a_retry_is_answered_even_when_the_same_words_would_be_refused_now(alice, service):
    entry = memoryfs_pb2.WriteEntry(content="soon over", ttl={"seconds": 1})
    first = await alice.write_entries([entry], request="r-1")
    stale = memoryfs_pb2.WriteEntry(id=first[0].id, if_match=first[0].etag, content="changed once")
    second = await alice.write_entries([stale], request="r-2")
    assert await alice.write_entries([stale], request="r-2") == second
    assert (await alice.get(first[0].id)).revision == 2


async def test_one_request_id_at_the_same_time_writes_once(alice):
    entry = memoryfs_pb2.WriteEntry(content="only one of these")
    results = await asyncio.gather(*(alice.write_entries([entry], request="same") for _ in range(8)))
    assert len({result[0].id for result in results}) == 1
    assert len(await alice.list_ids()) == 1


async def test_one_request_id_at_the_same_time_with_other_bodies_writes_one_of_them(alice):
    codes = await asyncio.gather(
        *(code_of(alice.write_entries([memoryfs_pb2.WriteEntry(content=f"n {n}")], request="same")) for n in range(6))
    )
    assert sorted(code.name for code in codes) == ["ABORTED"] * 5 + ["OK"]
    assert len(await alice.list_ids()) == 1


async def test_fifty_writers_at_once_lose_nothing(alice):
    ids = await asyncio.gather(*(alice.write(f"parallel {n}") for n in range(50)))
    assert sorted(ids) == sorted(await alice.list_ids(page_size=100))
    assert set(await alice.read_ids("parallel", top_k=100)) == set(ids)


async def test_fifty_writers_of_new_paths_and_readers_at_once(alice):
    await asyncio.gather(
        *(
            alice.write(f"x {n}", path=f"{alice.path}/p{n % 7}", readers=[f"user:r{n % 5}", "group:g"])
            for n in range(50)
        )
    )
    assert len(await alice.list_ids(page_size=100)) == 50


async def test_users_who_write_about_each_other_for_the_first_time_do_not_deadlock(service):
    pairs = [(f"left-{n}", f"right-{n}") for n in range(12)]
    writes = [
        service.caller(writer).write("about the other one", user=about)
        for left, right in pairs
        for writer, about in ((left, right), (right, left))
    ]
    assert len(set(await asyncio.gather(*writes))) == 24


async def test_a_filter_passes_items_of_the_first_and_the_last_instant(alice):
    first, last = {"seconds": -62_135_596_800}, {"seconds": 253_402_300_799, "nanos": 999_999_000}
    ids = {await alice.write("an edge of the calendar", tags=["edge"], valid_from=at) for at in (first, last)}
    edge = filter_pb2.Filter(tags_all=["edge"])
    for query in ("", "calendar"):
        assert set(await alice.read_ids(query, filter=edge)) == ids
    assert set(await alice.list_ids(filter=edge)) == ids
