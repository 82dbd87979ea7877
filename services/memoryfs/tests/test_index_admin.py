"""MigrateIndex, VerifyIndex and GetIndexStatus as operators call them."""

from __future__ import annotations

import asyncio
import json

import grpc
import pytest
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos.memoryfs.v1 import admin_pb2, memoryfs_pb2

pytestmark = pytest.mark.integration
QDRANT, PGVECTOR = admin_pb2.INDEX_BACKEND_QDRANT, admin_pb2.INDEX_BACKEND_PGVECTOR
START, CUT_OVER, FINISH = (
    admin_pb2.MIGRATION_STEP_START,
    admin_pb2.MIGRATION_STEP_CUT_OVER,
    admin_pb2.MIGRATION_STEP_FINISH,
)


@pytest.fixture
async def service(start_service, faulty, service_embedder):
    return await start_service(derived=faulty, embedder=service_embedder)


class Operator:
    """Who moves the index."""

    def __init__(self, service) -> None:
        self._caller = service.caller("opal", roles=frozenset({"operator"}))
        self._jobs = jobs_pb2_grpc.JobsStub(service.channel)

    async def step(self, step, to=QDRANT, request: str = ""):
        message = admin_pb2.MigrateIndexRequest(to=to, step=step, request_id=request or f"step-{step}-{to}")
        return await self._caller.call("MigrateIndex", message)

    async def verify(self, request: str, *, repair: bool = False) -> dict[str, int]:
        response = await self._caller.call(
            "VerifyIndex", admin_pb2.VerifyIndexRequest(repair=repair, request_id=request)
        )
        return json.loads((await self.ended(response.job.id)).result_json)

    async def status(self):
        return (await self._caller.call("GetIndexStatus", admin_pb2.GetIndexStatusRequest())).status

    async def ended(self, job_id: str):
        job = None
        watching = self._jobs.WatchJob(jobs_pb2.WatchJobRequest(id=job_id), metadata=self._caller._metadata, timeout=60)
        async for message in watching:
            job = message.job
        assert job.state == jobs_pb2.JOB_STATE_SUCCEEDED, job
        return job


async def test_an_operator_moves_the_index_step_by_step_and_a_retry_begins_no_second_job(service, faulty):
    operator, alice = Operator(service), service.caller("alice")
    ids = [await alice.write(f"turbine {n}") for n in range(12)]
    before = await operator.status()
    assert (before.backend, before.other_backend, before.phase) == (PGVECTOR, 0, 0)
    assert (before.embedding_model, before.dimensions) == (service.embedder.model_id, 64)
    first, second = await operator.step(START), await operator.step(START)
    assert first.job.id == second.job.id
    job = await operator.ended(first.job.id)
    assert json.loads(job.result_json)["compared"] == 12
    assert json.loads(job.result_json)["recall_at_10"] == 1
    ready = await operator.status()
    assert (ready.backend, ready.other_backend, ready.phase) == (
        PGVECTOR, QDRANT, admin_pb2.MIGRATION_PHASE_READY,
    )  # fmt: skip
    moved = (await operator.step(CUT_OVER)).status
    assert (moved.backend, moved.other_backend, moved.degraded) == (QDRANT, PGVECTOR, False)
    searches = faulty.searches
    assert set(await alice.read_ids("turbine 3", top_k=50)) == set(ids)
    assert faulty.searches > searches
    assert (await operator.step(FINISH)).status.phase == 0
    rows = await service.rows("SELECT outcome, target_ids FROM core.audit WHERE method LIKE '%MigrateIndex'")
    assert sorted((outcome, list(ids)) for outcome, ids in rows) == [
        ("OK", ["CUT_OVER:qdrant"]), ("OK", ["FINISH:qdrant"]), ("OK", ["START:qdrant"]),
    ]  # fmt: skip


async def test_a_step_out_of_its_time_is_refused_and_recorded(service):
    operator = Operator(service)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await operator.step(CUT_OVER)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    rows = await service.rows("SELECT outcome, reason FROM core.audit WHERE method LIKE '%MigrateIndex'")
    assert rows == [("ERROR", "MIGRATION_PHASE")]
    for message in ({"to": 0, "step": START}, {"to": QDRANT, "step": 0}, {"to": QDRANT, "step": 77}):
        with pytest.raises(grpc.aio.AioRpcError) as invalid:
            await operator.step(message["step"], message["to"])
        assert invalid.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("role", ["agent", "user", "tenant-admin"])
async def test_only_operators_move_or_verify(service, role):
    caller = service.caller("alice", roles=frozenset({role}))
    for method, message in (
        ("MigrateIndex", admin_pb2.MigrateIndexRequest(to=QDRANT, step=START, request_id="r")),
        ("VerifyIndex", admin_pb2.VerifyIndexRequest(request_id="r")),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.call(method, message)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_without_a_qdrant_there_is_nowhere_to_move(start_service):
    operator = Operator(await start_service(vector_backend="pgvector", qdrant={"url": ""}))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await operator.step(START)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_verify_finds_and_mends_and_status_tells_what_waits(start_service, faulty, service_embedder):
    service = await start_service(derived=faulty, embedder=service_embedder, vector_backend="qdrant")
    operator, alice = Operator(service), service.caller("alice")
    ids = [await alice.write(f"gasket {n}") for n in range(6)]
    async with asyncio.timeout(20):
        while (await operator.status()).pending_count:  # noqa: ASYNC110 - the service copies
            await asyncio.sleep(0.02)
    await faulty.inner.delete("acme", ids[:2])
    assert (await operator.verify("v-1"))["missing"] == 2
    found = await operator.verify("v-2", repair=True)
    assert (found["missing"], found["repaired"]) == (2, 2)
    async with asyncio.timeout(20):
        while (await operator.status()).pending_count:  # noqa: ASYNC110 - the service copies
            await asyncio.sleep(0.02)
    assert (await operator.verify("v-3"))["missing"] == 0
    faulty.down = True
    await alice.write("gasket of the outage")
    for _ in range(4):
        await alice.read("gasket")
    status = await operator.status()
    assert (status.pending_count, status.degraded) == (1, True)
    assert status.HasField("oldest_pending_time")


async def test_what_waits_of_other_tenants_is_the_operators_business_only(start_service, faulty, service_embedder):
    service = await start_service(derived=faulty, embedder=service_embedder, vector_backend="qdrant")
    faulty.down = True
    mallory = service.caller("mallory", tenant="evil", roles=frozenset({"agent", "tenant-admin"}))
    await service.caller("alice").write_entries([memoryfs_pb2.WriteEntry(content=f"seal {n}") for n in range(3)])
    await mallory.write("one")
    assert (await Operator(service).status()).pending_count == 4
    status = (await mallory.call("GetIndexStatus", admin_pb2.GetIndexStatusRequest())).status
    assert status.pending_count == 1
