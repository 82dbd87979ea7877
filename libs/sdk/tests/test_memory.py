"""The calls of DESIGN 3.1 as written there, and what the SDK refuses before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memoryos.memoryfs.v1 import filter_pb2, item_pb2
from memoryos_sdk import Client, InvalidArgument, NotFound
from memoryos_sdk.entries import write_entry
from memoryos_sdk.filters import FILTERS, read_filter

from .conftest import Services

PATH = "/tenants/acme/memory/episodic"


async def test_the_calls_read_as_in_the_design(client: Client, services: Services) -> None:
    fs = client.memory
    meta = {"user": "user_123", "time": "2025-07-01T00:00:00+08:00", "confidence": 0.92}
    written = await fs.write(PATH, content="客户 A 确认了 Q3 交付计划", meta=meta)
    hits = await fs.read(PATH, query="Q3 交付计划", top_k=5, filters={"user": "user_123"})
    assert [(hit.item.id, hit.item.content) for hit in hits] == [(written.id, "客户 A 确认了 Q3 交付计划")]
    assert (hits.exactness, hits.degradations, hits[0].score, hits[0].dense) == ("exact", (), 0.5, None)
    assert hits[0].item.valid_from == datetime(2025, 6, 30, 16, tzinfo=UTC)
    assert hits[0].item.valid_to is None
    assert (written.state, written.embed_state, written.gated) == ("active", "done", False)
    read = services.requests[-1]
    assert (read.path, read.query, read.top_k, list(read.filter.users)) == (PATH, "Q3 交付计划", 5, ["user_123"])
    assert not read.HasField("min_score")
    assert await fs.forget(PATH, id=written.id) == 1
    with pytest.raises(NotFound) as caught:
        await fs.get(written.id)
    assert (caught.value.reason, caught.value.metadata) == ("ITEM_NOT_FOUND", {"id": written.id})


async def test_many_entries_make_one_request(client: Client, services: Services) -> None:
    entries = [{"content": f"线 {n}", "meta": {"tags": ["line", f"no:{n}"]}} for n in range(3)]
    results = await client.memory.write_many(PATH, entries)
    assert [r.id for r in results] == list(services.items)
    assert len(services.requests) == 1
    assert [list(e.tags) for e in services.requests[0].entries] == [["line", f"no:{n}"] for n in range(3)]


async def test_a_list_turns_its_pages(client: Client, services: Services) -> None:
    await client.memory.write_many(PATH, [{"content": str(n)} for n in range(5)])
    services.requests.clear()
    listing = client.memory.list(PATH, page_size=2)
    assert [item.content async for item in listing] == list("01234")
    assert [r.page_token for r in services.requests] == ["", "2", "4"]
    services.requests.clear()
    assert [item.content for item in await listing.take(2)] == ["0", "1"]
    assert len(services.requests) == 1
    assert await listing.take(0) == []


def test_every_key_of_meta_reaches_its_field() -> None:
    entry = write_entry(
        content="x",
        meta={
            "user": "u1",
            "time": datetime(2025, 1, 1, tzinfo=UTC),
            "valid_to": "2025-02-01T00:00:00Z",
            "confidence": 0.5,
            "importance": 1,
            "tags": ["a"],
            "attributes": {"n": 2**53 + 1, "a": None},
            "readers": ["group:sales"],
            "sensitivity": 3,
            "trust": "untrusted",
            "origin": "observed",
            "source": {"document": "d.pdf", "page": 2, "message_ids": ["msg_1"]},
            "event_key": {"subject": "报价", "scope": "华东区"},
            "ttl": timedelta(hours=1),
        },
    )
    assert entry.attributes_json == b'{"a":null,"n":9007199254740993}'
    assert (entry.trust, entry.origin) == (item_pb2.TRUST_UNTRUSTED, item_pb2.ORIGIN_OBSERVED)
    assert (entry.source.page, list(entry.source.message_ids), entry.event_key.scope) == (2, ["msg_1"], "华东区")
    assert entry.ttl.ToTimedelta() == timedelta(hours=1)
    assert (entry.importance, entry.sensitivity, list(entry.readers)) == (1.0, 3, ["group:sales"])
    assert not entry.HasField("update_mask")


def test_an_update_changes_exactly_what_is_given_and_none_clears() -> None:
    entry = write_entry(content=None, meta={"tags": [], "valid_to": None}, item_id="mem_1", if_match="e1")
    assert sorted(entry.update_mask.paths) == ["tags", "valid_to"]
    assert (entry.id, entry.if_match, entry.HasField("valid_to")) == ("mem_1", "e1", False)


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        ({"usr": "u1"}, "meta.usr"),
        ({"tenant": "other"}, "meta.tenant"),
        ({"path": "/tenants/b/memory/episodic"}, "meta.path"),
        ({"owner": "user:x"}, "meta.owner"),
        ({"confidence": "high"}, "meta.confidence"),
        ({"confidence": True}, "meta.confidence"),
        ({"sensitivity": 2**40}, "meta.sensitivity"),
        ({"time": datetime(2025, 1, 1)}, "meta.time"),
        ({"time": "2025-01-01T10:00:00"}, "meta.time"),
        ({"time": "yesterday"}, "meta.time"),
        ({"time": 1735689600}, "meta.time"),
        ({"trust": "yes"}, "meta.trust"),
        ({"trust": "unspecified"}, "meta.trust"),
        ({"attributes": [1]}, "meta.attributes"),
        ({"attributes": {"x": float("nan")}}, "meta.attributes"),
        ({"attributes": {"x": "\ud800"}}, "meta.attributes"),
        ({"source": {"sesion_id": "s"}}, "meta.source.sesion_id"),
        ({"tags": [1]}, "meta.tags"),
        ({"user": "\ud800"}, "meta.user"),
        ({"ttl": 60}, "meta.ttl"),
    ],
)
async def test_meta_is_closed(client: Client, services: Services, meta: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.memory.write(PATH, content="x", meta=meta)
    assert [v.field for v in caught.value.violations] == [field]
    assert caught.value.reason == "INVALID_FIELD"
    assert services.requests == []


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"usr": "u1"}, "filters.usr"),
        ({"user": []}, "filters.user"),
        ({"user": [1]}, "filters.user"),
        ({"tags": {}}, "filters.tags"),
        ({"time": "2025-07-01"}, "filters.time"),
        ({"time": ("2025-07-01",)}, "filters.time"),
        ({"time": (datetime(2025, 7, 1), None)}, "filters.time"),
        ({"min_confidence": "0.5"}, "filters.min_confidence"),
    ],
)
async def test_filters_are_closed(client: Client, services: Services, filters: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await client.memory.read(PATH, filters=filters)
    assert [v.field for v in caught.value.violations] == [field]
    assert services.requests == []


def test_every_filter_reaches_its_field() -> None:
    found = read_filter(
        {
            "user": ["u1", "u2"],
            "tags": "a",
            "tags_any": ["b", "x' OR '1'='1"],
            "time": ("2025-07-01T00:00:00Z", None),
            "create_time": (None, datetime(2025, 8, 1, tzinfo=UTC)),
            "min_confidence": 0.5,
            "tags_exact": ["z"],
            "owner": "user:u1",
            "kind": "semantic",
            "origin": ["stated", "merged"],
            "state": "active",
            "trust": "untrusted",
            "confidence": (0.8, None),
            "importance": (None, 0.5),
            "update_time": ("2025-07-01T00:00:00Z", None),
            "pinned": False,
            "attributes": {"amount": {"range": (2**53 + 1, None)}, ("a.b", "c"): "WR-1024", "x": {"in": [True]}},
            "all_of": [{"pinned": True}],
            "any_of": [{"user": "u"}],
            "none_of": [{"tags": "t"}],
        },
        None,
    )
    assert (list(found.users), list(found.tags_all), list(found.tags_any)) == (
        ["u1", "u2"],
        ["a"],
        ["b", "x' OR '1'='1"],
    )
    assert found.valid_from.start.ToJsonString() == "2025-07-01T00:00:00Z"
    assert not found.valid_from.HasField("end")
    assert (found.create_time.HasField("start"), found.min_confidence) == (False, 0.5)
    assert found.tags_exact == filter_pb2.TagSet(tags=["z"])
    assert (list(found.owners), list(found.kinds)) == (["user:u1"], ["semantic"])
    assert list(found.origins) == [item_pb2.ORIGIN_STATED, item_pb2.ORIGIN_MERGED]
    assert (list(found.states), list(found.trusts)) == ([item_pb2.STATE_ACTIVE], [item_pb2.TRUST_UNTRUSTED])
    assert (found.confidence.min, found.confidence.HasField("max")) == (0.8, False)
    assert (found.importance.HasField("min"), found.importance.max) == (False, 0.5)
    assert found.update_time.HasField("start")
    assert found.pinned is False
    assert found.HasField("pinned")
    assert [list(one.path) for one in found.attributes] == [["amount"], ["a.b", "c"], ["x"]]
    assert found.attributes[0].range.min.integer == 2**53 + 1
    assert found.attributes[1].eq.text == "WR-1024"
    assert [value.flag for value in getattr(found.attributes[2], "in").values] == [True]
    assert (found.all_of[0].pinned, found.any_of[0].users, found.none_of[0].tags_all) == (True, ["u"], ["t"])
    set_fields = {descriptor.name for descriptor, _ in found.ListFields()}
    assert set_fields == {f.name for f in found.DESCRIPTOR.fields}
    assert len(FILTERS) == len(found.DESCRIPTOR.fields)


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"taggs": "a"}, "filters.taggs"),
        ({"tags": []}, "filters.tags"),
        ({"pinned": 1}, "filters.pinned"),
        ({"confidence": 0.8}, "filters.confidence"),
        ({"origin": "told"}, "filters.origin"),
        ({"any_of": []}, "filters.any_of"),
        ({"none_of": [{"x": 1}]}, "filters.none_of[0].x"),
        ({"attributes": {"a": {"like": "x"}}}, "filters.attributes.a"),
        ({"attributes": {"a": {"in": []}}}, "filters.attributes.a"),
        ({"attributes": {"a": 2**63}}, "filters.attributes.a"),
        ({"attributes": {"a": None}}, "filters.attributes.a"),
    ],
)
def test_a_filter_that_is_not_understood_is_refused_not_left_out(filters: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_filter(filters, None)
    assert [v.field for v in caught.value.violations] == [field]


async def test_forget_takes_one_or_many_ids_never_a_string_of_letters(client: Client, services: Services) -> None:
    for arguments in ({}, {"id": "mem_1", "ids": ["mem_2"]}, {"ids": "mem_1"}):
        with pytest.raises(InvalidArgument):
            await client.memory.forget(PATH, **arguments)
    assert services.requests == []


async def test_an_entry_key_is_never_ignored(client: Client) -> None:
    with pytest.raises(InvalidArgument, match=r"entries\[1\]\.metadata"):
        await client.memory.write_many(PATH, [{"content": "x"}, {"content": "y", "metadata": {}}])
