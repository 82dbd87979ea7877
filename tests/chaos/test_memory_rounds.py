"""kill -9 of MemoryFS, PostgreSQL and Qdrant at random instants of everything MemoryFS does, round after round.

Nothing acknowledged is lost, nothing is half, a repeated request gets its first answer, and what was begun
comes to its end by itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import grpc
import pytest
from memoryos.jobs.v1 import jobs_pb2, jobs_pb2_grpc
from memoryos.memoryfs.v1 import admin_pb2
from memoryos_testing.memory_invariants import broken_invariants

from .memory_deployment import Deployment, deployed
from .memory_workers import Worker

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]
ROUNDS = 100
WORKERS = 4
BUSY_S = 0.35
"""Longest that the callers work before the next kill."""
COMPARED_EVERY = 5
FREED_EVERY = 4
"""Rounds between two ends of leases: leases last longer than a round, so that a job has time to come further."""
STUCK_S = 90
"""Time without any progress after which nothing is awaited any more; a purge that came no further rests for 60 s."""
QDRANT, PGVECTOR = admin_pb2.INDEX_BACKEND_QDRANT, admin_pb2.INDEX_BACKEND_PGVECTOR
START, CUT_OVER, ROLL_BACK, FINISH = (
    admin_pb2.MIGRATION_STEP_START,
    admin_pb2.MIGRATION_STEP_CUT_OVER,
    admin_pb2.MIGRATION_STEP_ROLL_BACK,
    admin_pb2.MIGRATION_STEP_FINISH,
)


class Mover:
    """An operator who moves the index from one backend to the other and back, step by step, for ever."""

    def __init__(self, deployment: Deployment, running: asyncio.Event) -> None:
        self._operator = deployment.caller("opal", "acme", "operator")
        self._worker = Worker(deployment, "opal", running, random.Random(0))
        self._running = running
        self._jobs = jobs_pb2_grpc.JobsStub(deployment.channel)
        self.moves = 0

    async def run(self) -> None:
        to = QDRANT
        while True:
            if not await self._job((await self._step(START, to)).job.id):
                await self._step(ROLL_BACK, to)  # killed too often without coming further: given up, visibly
                continue
            for step in (CUT_OVER, ROLL_BACK, CUT_OVER, FINISH):
                await self._running.wait()
                await self._step(step, to)
            self.moves += 1
            to = PGVECTOR if to == QDRANT else QDRANT

    async def _step(self, step: int, to: int) -> admin_pb2.MigrateIndexResponse:
        request = admin_pb2.MigrateIndexRequest(to=to, step=step, request_id=f"{self.moves}-{step}-{random.random()}")
        return await self._worker.call("MigrateIndex", request, self._operator)

    async def _job(self, job_id: str) -> jobs_pb2.Job | None:
        """Give the job once it has succeeded, None when it was given up."""
        while True:
            try:
                request = jobs_pb2.GetJobRequest(id=job_id)
                job = (await self._jobs.GetJob(request, metadata=self._operator, timeout=5)).job
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.1)
                continue
            if job.error_reason == "JOB_GIVEN_UP":
                return None
            if job.state >= jobs_pb2.JOB_STATE_SUCCEEDED:
                assert job.state == jobs_pb2.JOB_STATE_SUCCEEDED, job
                return job
            await asyncio.sleep(0.1)


async def test_rounds_of_kills_with_the_copy_in_the_process(tmp_path: Path) -> None:
    await rounds(tmp_path, None, ROUNDS, seed=1)


async def test_rounds_of_kills_with_a_qdrant_that_is_killed_too(tmp_path: Path, qdrant_binary: Path) -> None:
    await rounds(tmp_path, qdrant_binary, ROUNDS, seed=2)


async def rounds(folder: Path, qdrant_binary: Path | None, count: int, *, seed: int) -> None:
    rng = random.Random(seed)
    running = asyncio.Event()
    async with deployed(folder, qdrant_binary) as deployment:
        workers = [Worker(deployment, f"w{n}", running, random.Random(100 * seed + n)) for n in range(WORKERS)]
        mover = Mover(deployment, running)
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        tasks.append(asyncio.create_task(mover.run()))
        for number in range(count):
            running.set()
            await asyncio.sleep(rng.uniform(0.01, BUSY_S))  # the instant of the kill is what is drawn
            died = [task for task in tasks if task.done()]
            assert not died, await asyncio.gather(*died)
            victims = drawn(rng, deployment)
            await deployment.kill(victims)
            await deployment.start(victims)
            if number % FREED_EVERY == 0:
                await deployment.free_jobs()
            print(number, victims, mover.moves, [w.lost for w in workers], flush=True)  # noqa: T201
            assert await broken_invariants(deployment.admin_dsn) == {}, (number, victims)
            if number % COMPARED_EVERY == COMPARED_EVERY - 1:
                await compared(workers, running)
        await compared(workers, running)
        assert await ended(deployment, tasks[-1]) == {}
        for worker in workers:
            worker.purged.clear()
            await worker.check()
        assert mover.moves > 0
        assert sum(worker.lost for worker in workers) > count / 2
        done = {step for worker in workers for step in worker.calls}
        assert {"write", "update", "merge", "purge", "roll_back", "move", "hand_over"} <= done


def drawn(rng: random.Random, deployment: Deployment) -> list[str]:
    """Give who dies: mostly one; MemoryFS, the slowest to start, less often."""
    weights = {"memoryfs": 2, "postgres": 3, "qdrant": 3}
    names = sorted(deployment.parts)
    drawn_twice = rng.choices(names, [weights[name] for name in names], k=2)
    return sorted(set(drawn_twice[: rng.choice([1, 1, 1, 2])]))


async def compared(workers: list[Worker], running: asyncio.Event) -> None:
    """Let every worker end its call, then compare what is there with what must be."""
    running.clear()
    for worker in workers:
        await worker.idle()
    for worker in workers:
        await worker.again()
        await worker.check()


async def ended(deployment: Deployment, moving: asyncio.Task[None]) -> dict[str, list[str]]:
    """Give what comes to its end no more by itself: for as long as something does, there is more to come."""
    await deployment.free_jobs()
    left, since = "", time.monotonic()
    while broken := await broken_invariants(deployment.admin_dsn, settled=True):
        seen = await deployment.unfinished()
        if seen != left:
            left, since = seen, time.monotonic()
        elif time.monotonic() - since > STUCK_S:
            break
        await asyncio.sleep(0.25)
    moving.cancel()
    return broken
