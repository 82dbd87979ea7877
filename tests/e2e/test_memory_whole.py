"""Every call of MemoryFS, as an agent developer makes it through the SDK, on the whole deployment."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from memoryos_sdk import Aborted, FailedPrecondition, NotFound, PermissionDenied, sync

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
BASE = "/tenants/acme/memory"


async def test_read_in_full(world: World) -> None:
    fs = world.client("w-read").memory
    here = f"{BASE}/semantic/w-read"
    order = await fs.write(
        here,
        content="订单 WR-1024 已发货",
        meta={"attributes": {"amount": 7, "order": {"id": "WR-1024"}}, "tags": ["订单"]},
    )
    other = await fs.write(
        f"{here}/b", content="Invoice AB-9 is open", meta={"attributes": {"amount": 12}, "pinned": True}
    )
    await fs.write(f"{here}/c", content="unrelated", meta={"tags": ["x"]})
    found = await fs.read(
        [here, f"{here}/b"], query="WR-1024", boosts={"recency": 0.1, "recency_half_life": timedelta(1)}
    )
    assert found[0].item.id == order.id
    assert found[0].recency is not None
    by = {"attributes": {("order", "id"): "WR-1024", "amount": {"range": (5, 10)}}}
    assert [hit.item.id for hit in await fs.read(here, filters=by)] == [order.id]
    either = {"any_of": [{"tags": "订单"}, {"pinned": True}], "none_of": [{"tags": "x"}]}
    assert {hit.item.id for hit in await fs.read(here, query="open", filters=either)} == {order.id, other.id}
    assert [item.id async for item in fs.list(here, filters={"pinned": True})] == [other.id]
    assert (await fs.get(order.id, with_access=True)).hit_count is not None


async def test_facts_change_and_everything_is_told(world: World) -> None:
    fs = world.client("w-facts").memory
    here = f"{BASE}/semantic/w-facts"
    key = {"subject": "w-facts", "scope": "home", "condition": ""}
    berlin = await fs.write(here, content="Lives in Berlin", meta={"event_key": key, "time": "2020-01-01T00:00:00Z"})
    rome = await fs.write(here, content="Moved to Rome", meta={"event_key": key, "time": "2024-01-01T00:00:00Z"})
    assert rome.superseded_ids == (berlin.id,)
    assert [hit.item.id for hit in await fs.read(here, query="where")] == [rome.id]
    then = await fs.read(here, query="lives", valid_at=datetime(2022, 1, 1, tzinfo=UTC))
    assert [hit.item.id for hit in then] == [berlin.id]
    again = await fs.write(here, content="Moved to Rome", meta={"time": "2024-01-01T00:00:00Z"})
    assert (again.id, again.outcome) == (rome.id, "known")
    corrected = await fs.write(here, id=rome.id, content="Moved to Rome, Trastevere")
    changes = await fs.history(rome.id).all()
    assert [change.cause for change in changes] == ["update", "write"]
    assert (await fs.revert(here, rome.id, 1)).content == "Moved to Rome"
    lineage = await fs.lineage(rome.id)
    assert (berlin.id, rome.id, "superseded") in lineage.edges
    assert corrected.revision == 2


async def test_doubt_and_people(world: World) -> None:
    fs = world.client("w-doubt").memory
    here = f"{BASE}/semantic/w-doubt"
    doubtful = await fs.write(here, content="May like tea", meta={"confidence": 0.4, "origin": "inferred"})
    assert doubtful.gated
    assert not await fs.read(here, query="tea")
    assert (await fs.promote(here, doubtful.id, reason="asked")).state == "active"
    assert [hit.item.id for hit in await fs.read(here, query="tea")] == [doubtful.id]
    assert (await fs.dispute(here, doubtful.id, reason="denied")).state == "candidate"


async def test_merge_and_what_was_made_follows(world: World) -> None:
    fs = world.client("w-merge").memory
    here = f"{BASE}/episodic/w-merge"
    one = await fs.write(here, content="Ordered a red bike on Monday")
    two = await fs.write(here, content="Complained about the brakes on Friday")
    merged = await fs.merge(here, [one.id, two.id], content="Bought a bike and was unhappy with its brakes")
    assert (merged.origin, set(merged.derived_from)) == ("merged", {one.id, two.id})
    assert [hit.item.id for hit in await fs.read(here, query="bike")] == [merged.id]
    with pytest.raises(FailedPrecondition):
        await fs.merge(here, [one.id, two.id], content="again")


async def test_places_and_their_settings(world: World) -> None:
    admin = world.client("w-admin", roles=("user", "tenant-admin")).memory
    fs = world.client("w-places").memory
    here = f"{BASE}/semantic/w-places"
    await admin.set_settings(here, gate=0.95, items_max=100, ttl=timedelta(days=30))
    own, effective = await fs.settings(f"{here}/deep")
    assert (own.gate, effective.gate, effective.ttl) == (None, 0.95, timedelta(days=30))
    with pytest.raises(PermissionDenied):
        await fs.set_settings(here, gate=0.0)
    assert (await fs.write(f"{here}/deep", content="rather sure", meta={"confidence": 0.9})).gated
    sure = await fs.write(f"{here}/deep", content="sure")
    assert (await fs.stat(here, with_children=True)).children[f"{here}/deep"].active_count == 1
    assert await fs.move(f"{here}/deep", f"{here}/moved") == 2
    assert (await fs.get(sure.id)).path == f"{here}/moved"
    assert here in [settings.path async for settings in admin.list_settings(here)]
    await admin.set_settings(here, gate=None, items_max=None, ttl=None)


async def test_forget_by_preview(world: World) -> None:
    fs = world.client("w-forget").memory
    here = f"{BASE}/episodic/w-forget"
    await fs.write_many(here, [{"content": f"line {n}", "meta": {"tags": ["old"]}} for n in range(9)])
    kept = await fs.write(here, content="kept")
    preview = await fs.preview_forget(here, {"tags": "old"})
    assert preview.matched_count == 9
    await fs.write(here, content="one more", meta={"tags": ["old"]})
    assert await fs.forget_previewed(here, {"tags": "old"}, preview) == 9
    with pytest.raises(Aborted):
        await fs.forget_previewed(here, {"tags": "old"}, preview)
    assert kept.id in [item.id async for item in fs.list(here)]


async def test_snapshots_and_rollback(world: World) -> None:
    fs = world.client("w-back").memory
    here = f"{BASE}/semantic/w-back"
    one = await fs.write(here, content="as it was")
    gone = await fs.write(here, content="to be forgotten")
    point = await fs.create_snapshot(here, title="before", channel="test")
    await fs.write(here, id=one.id, content="spoilt")
    await fs.forget(here, id=gone.id)
    extra = await fs.write(here, content="added by mistake")
    differences = {d.id: d.kind for d in await fs.diff(here, point.id).all()}
    assert differences == {one.id: "changed", gone.id: "removed", extra.id: "added"}
    assert (await fs.rollback(here, point.id, preview=True)).undo_snapshot_id == ""
    done = await fs.rollback(here, point.id)
    assert (done.reverted_count, done.forgotten_count, done.restored_count) == (1, 1, 1)
    assert {item.id: item.content async for item in fs.list(here)} == {one.id: "as it was", gone.id: "to be forgotten"}
    assert await fs.diff(here, point.id).all() == []
    assert point.id in [snapshot.id async for snapshot in fs.list_snapshots(here)]


async def test_feed_export_and_import(world: World, tmp_path: Path) -> None:
    fs = world.client("w-feed").memory
    here = f"{BASE}/semantic/w-feed"
    async with aclosing(fs.watch(here, from_start=True)) as events:
        written = await fs.write(here, content="客户 A 确认了 Q3 交付计划\u2028", meta={"user": "u-甲"})
        event = await asyncio.wait_for(anext(events), 30)
    assert (event.id, event.change.cause, event.change.item and event.change.item.content) == (
        written.id, "write", "客户 A 确认了 Q3 交付计划\u2028"
    )  # fmt: skip
    manifest = await fs.export(here, tmp_path / "out", with_vectors=True)
    assert manifest["item_count"] == "1"
    await fs.write(here, id=written.id, content="changed")
    imported = await fs.import_folder(here, tmp_path / "out", conflict="replace")
    assert imported.replaced_count == 1
    assert (await fs.get(written.id)).content == "客户 A 确认了 Q3 交付计划\u2028"
    await fs.export(here, tmp_path / "people", layout="readable")
    (profile,) = (tmp_path / "people").glob("*/profile.json")
    assert json.loads(profile.read_text())["user"] == "u-甲"


async def test_bindings(world: World) -> None:
    fs = world.client("w-bind").memory
    binding = await fs.bind(session="ses-x", read_paths=[f"{BASE}/semantic/w-bind"], ttl=timedelta(hours=1))
    assert [b.id for b in await fs.list_bindings(session="ses-x").all()] == [binding.id]
    assert await fs.unbind(binding.id) == 0
    assert await fs.list_bindings().all() == []


async def test_erasure_with_a_receipt(world: World) -> None:
    client = world.client("w-erase")
    here = f"{BASE}/semantic/w-erase"
    written = await client.memory.write(here, content="to be erased")
    kept = await client.memory.write(here, content="to be kept")
    job = await client.memory.purge(path=here, ids=[written.id], reason="asked for")
    ended = await client.jobs.wait(job.id)
    assert ended.state == "succeeded", ended
    receipt = await client.memory.receipt(job.id)
    assert written.id.encode() not in receipt.raw
    with pytest.raises(NotFound):
        await client.memory.get(written.id)
    assert (await client.memory.get(kept.id)).content == "to be kept"
    assert job.id in [one.id async for one in client.jobs.list()]


async def test_explain_and_index(world: World) -> None:
    fs = world.client("w-shown").memory
    here = f"{BASE}/semantic/w-shown"
    mine = await fs.write(here, content="a secret", meta={"sensitivity": 0})
    auditor = world.client("w-auditor", roles=("auditor",)).memory
    (seen,) = await auditor.explain(here, [mine.id], user="w-shown", query="secret")
    (hidden,) = await auditor.explain(here, [mine.id], user="someone", query="secret")
    assert (seen.verdict, seen.rank, hidden.verdict) == ("in_answer", 1, "acl")
    status = await world.client("w-operator", roles=("operator",)).index.status()
    assert (status.backend, status.degraded) == ("pgvector", False)


async def test_the_client_without_async(world: World) -> None:
    await asyncio.to_thread(without_async, world)


def without_async(world: World) -> None:
    here = f"{BASE}/semantic/w-sync"
    with sync.connect(token=world.stack.token("acme", "w-sync"), **world.stack.addresses) as client:
        written = client.memory.write(here, content="no await")
        assert [hit.item.id for hit in client.memory.read(here, query="await")] == [written.id]
        assert [item.id for item in client.memory.list(here)] == [written.id]
        assert client.memory.history(written.id).all()[0].cause == "write"
        with pytest.raises(NotFound):
            client.memory.get("mem_" + "0" * 26)
