"""Erasure that leaves something behind: in tables of later releases, in caches that are written down late, in answers.

- A table that came with a later release is not known to the purge.
- What a process still holds in memory (uses that are counted) is written after the purge.
- An item under purge comes back by a rollback or a restore before its rows are gone.
"""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from memoryos.jobs.v1 import jobs_pb2
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, snapshots_pb2
from memoryos_testing.memory_invariants import broken_invariants
from memoryos_testing.postgres import admin_execute

from .conftest import request_id
from .test_embedder_outage import eventually
from .test_purge import ended, person, places_holding, purge, receipt

pytestmark = pytest.mark.integration
TABLES = ("item_claims", "item_evidence", "candidate_lives", "change_reasons", "cold_tokens", "item_access")


async def test_a_purge_reaches_every_table_that_names_an_item(start_service):
    service = await start_service(upkeep_s=0.1)
    alice = person(service, "alice")

    def said(text: str, message: str, **fields) -> memoryfs_pb2.WriteEntry:
        source = item_pb2.Source(session_id="s", message_ids=[message])
        return memoryfs_pb2.WriteEntry(content=text, source=source, **fields)

    (claimed,) = await alice.write_entries([said("the pump runs at 40 bar", "m1")])
    await alice.write_entries([said("the pump runs at 40 bar", "m2")])
    (doubtful,) = await alice.write_entries([said("maybe 41", "m3", confidence=0.5, ttl=Duration(seconds=9 * 86_400))])
    (disputed,) = await alice.write_entries([said("the valve is open", "m4")])
    dispute = lifecycle_pb2.DisputeRequest(
        path=alice.path, id=disputed.id, reason="not any more", request_id=request_id()
    )
    await alice.call("Dispute", dispute)
    (cold,) = await alice.write_entries([said("grown cold", "m5")])
    await service.rows("UPDATE memoryfs.items SET tier = 2 WHERE id = %s", cold.id)
    await service.rows(
        "INSERT INTO memoryfs.cold_tokens SELECT * FROM memoryfs.item_tokens WHERE item_id = %s", cold.id
    )
    await service.rows("DELETE FROM memoryfs.item_tokens WHERE item_id = %s", cold.id)
    await alice.read("pump")
    ids = [claimed.id, doubtful.id, disputed.id, cold.id]

    async def counted() -> bool:
        return bool(await service.rows("SELECT 1 FROM memoryfs.item_access WHERE item_id = %s", claimed.id))

    await eventually(counted)
    for table in TABLES:
        query = f"SELECT 1 FROM memoryfs.{table} WHERE item_id = ANY (%s)"
        assert await service.rows(query, ids), table
    job = await purge(alice, request="p-1", ids=ids, path=alice.path)
    assert (await ended(service, alice, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    places = {place["place"]: place for place in (await receipt(service, alice, job.id))["places"]}
    for table in TABLES:
        if table != "cold_tokens":  # words go with the forgetting that comes first
            assert places[f"memoryfs.{table}"]["removed"] > 0, table
        assert places[f"memoryfs.{table}"]["found"] == 0, table
    assert set(await places_holding(service, *ids)) <= {"core.audit"}
    assert await broken_invariants(service.database.admin_dsn) == {}


async def test_uses_that_are_written_down_after_the_purge_leave_no_name_behind(start_service):
    """Uses wait in the process for longer than the purge takes."""
    service = await start_service(upkeep_s=1.5)
    alice = person(service, "alice")
    gone, stays = await alice.write("pump one"), await alice.write("pump two")
    assert set(await alice.read_ids("pump")) == {gone, stays}
    await admin_execute(service.database, "DELETE FROM memoryfs.item_access")
    assert set(await alice.read_ids("pump")) == {gone, stays}
    job = await purge(alice, request="p-1", ids=[gone], path=alice.path)
    await ended(service, alice, job.id)

    async def counted() -> bool:
        return bool(await service.rows("SELECT 1 FROM memoryfs.item_access WHERE item_id = %s", stays))

    await eventually(counted)
    assert set(await places_holding(service, gone)) <= {"core.audit"}


async def test_what_is_being_purged_is_not_brought_back_by_anything(service):
    alice = person(service, "alice")
    ids = [await alice.write(f"pump {n}") for n in range(3)]
    point = snapshots_pb2.CreateSnapshotRequest(path=alice.path, request_id=request_id())
    snapshot = (await alice.call("CreateSnapshot", point)).snapshot.id
    job = await purge(alice, request="p-1", ids=ids, path=alice.path)
    back = snapshots_pb2.RollbackRequest(path=alice.path, snapshot_id=snapshot, request_id=request_id())
    await asyncio.gather(alice.call("Rollback", back), alice.restore(*ids), return_exceptions=True)
    assert (await ended(service, alice, job.id)).state == jobs_pb2.JOB_STATE_SUCCEEDED
    assert await alice.read_ids("pump") == []
    assert await alice.list_ids() == []
    assert set(await places_holding(service, *ids)) <= {"core.audit"}
    for item_id in ids:
        with pytest.raises(grpc.aio.AioRpcError):
            await alice.get(item_id)
    assert await broken_invariants(service.database.admin_dsn) == {}
