"""kill -9 in every phase of a purge and around its ends: the next process goes on, and the receipt is the same kind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
import yaml
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos.memoryfs.v1 import admin_pb2, memoryfs_pb2
from memoryos_core.tokens import Identity
from memoryos_testing import run_until_crash
from memoryos_testing.postgres import admin_execute

pytestmark = pytest.mark.chaos
PATH = "/tenants/acme/memory/episodic"
MODULE = "memoryos_memoryfs.main"
POINTS = [
    "jobs.run.taken_up",
    *(f"memoryfs.purge.in_phase:{number}" for number in range(1, 7)),
    "memoryfs.purge.after_batch",
    "memoryfs.purge.after_peers",
    "jobs.run.before_end",
]


class Process:
    """MemoryFS as a process of its own."""

    def __init__(self, database, keys, folder, as_type) -> None:
        self._port_file = folder / "port"
        token = keys.token(Identity(tenant="acme", user="alice", roles=frozenset({"user"})))
        self.metadata = (("authorization", f"Bearer {token}"),)
        self._token, self._as, self._database = token, as_type, database
        section = database.section
        config = {
            "grpc": {"port_file": str(self._port_file)},
            "telemetry": {"span_dir": str(folder / "spans")},
            "postgres": {
                "port": section.port,
                "database": section.database,
                "secrets_dir": str(section.secrets_dir),
            },
            "identity": {"keys_file": str(keys.keys_file)},
            "sealing": {"epoch_key_file": str(keys.epoch_key_file)},
            "memoryfs": {"receipt_key_file": str(keys.receipt_key_file)},
        }
        file = folder / "memoryfs.yaml"
        file.write_text(yaml.safe_dump(config))
        self.environ = {"MEMORYOS_CONFIG": str(file)}

    @asynccontextmanager
    async def caller(self) -> AsyncIterator:
        async with asyncio.timeout(30):
            while not self._port_file.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port_file.read_text().strip()}") as channel:
            yield self._as(channel, self._token, PATH), jobs_pb2_grpc.JobsStub(channel)

    async def crash_at(self, point: str, drive) -> None:
        self._port_file.unlink(missing_ok=True)

        async def driven() -> None:
            async with self.caller() as (caller, _):
                await drive(caller)

        await run_until_crash(MODULE, point=point, environ=self.environ, drive=driven)
        self._port_file.unlink(missing_ok=True)
        # What the dead process held is free when its lease runs out; a test need not wait for that.
        await admin_execute(self._database, "UPDATE core.due_jobs SET due_time = now()")

    @asynccontextmanager
    async def running(self) -> AsyncIterator:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, env={**self.environ, "PATH": os.defpath}
        )
        try:
            async with self.caller() as found:
                yield found
        finally:
            if process.returncode is None:
                process.terminate()
            async with asyncio.timeout(30):
                await process.wait()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", POINTS)
async def test_a_purge_that_was_killed_goes_on_to_its_receipt(database, keys, tmp_path, as_type, point):
    process = Process(database, keys, tmp_path, as_type)
    vector = memoryfs_pb2.Embedding(model="usem3-512", values=[1.0] + [0.0] * 511)
    async with process.running() as (caller, _):
        entries = [memoryfs_pb2.WriteEntry(content=f"secret {n}", embedding=vector) for n in range(12)]
        await caller.write_entries(entries, request="w-1")
    request = admin_pb2.PurgeRequest(path=PATH, subtree=True, request_id="p-1")

    async def drive(caller) -> None:
        await caller.call("Purge", request)
        await asyncio.Event().wait()

    await process.crash_at(point, drive)
    async with process.running() as (caller, jobs):
        job = (await caller.call("Purge", request)).job
        async for seen in jobs.WatchJob(jobs_pb2.WatchJobRequest(id=job.id), metadata=process.metadata, timeout=90):
            job = seen.job
        assert job.state == jobs_pb2.JOB_STATE_SUCCEEDED, job
        assert job.attempts == 2
        paper = json.loads((await caller.call("GetReceipt", admin_pb2.GetReceiptRequest(job_id=job.id))).receipt_json)
        assert {place["found"] for place in paper["places"]} == {0}
        assert {place["place"]: place["removed"] for place in paper["places"]}["memoryfs.items"] == 12
        assert await caller.list_ids(page_size=100) == []
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await caller.write_entries(entries, request="w-1")
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
