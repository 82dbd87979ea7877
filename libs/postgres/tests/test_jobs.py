"""Jobs: done once to the end, whoever dies in between, and nobody waits behind a bad one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from memoryos_core.errors import DependencyUnavailable, JobNotFound, NotAllowed
from memoryos_core.ids import UlidSource
from memoryos_core.paths import MemoryPath
from memoryos_postgres import roles
from memoryos_postgres.errors import DatabaseFault
from memoryos_postgres.jobs import JobLost, JobRunner, Jobs, JobSettings, JobState, JobWaits
from memoryos_testing import scope_of
from memoryos_testing.postgres import admin_execute

FAST = JobSettings(lease_s=2, poll_s=0.02, retry_s=0.02, faults_max=3)


@pytest.fixture
async def db(database_factory):
    return await database_factory(roles.MEMORYFS)


@pytest.fixture
def jobs(db, key_ring):
    return Jobs(db, "memoryfs", key_ring, UlidSource())


async def start(jobs, kind="test", asked=b"asked", **who):
    scope = scope_of(**who)
    async with jobs.database.scoped(scope) as tx:
        return await jobs.start(tx, scope, kind, asked)


async def started_and_rolled_back(jobs):
    async with jobs.database.scoped(scope_of()) as tx:
        await jobs.start(tx, scope_of(), "test", b"")
        await tx.execute("SELECT 1 / 0")


@asynccontextmanager
async def running(jobs, settings=FAST, **handlers) -> AsyncIterator[None]:
    runner = asyncio.create_task(JobRunner(jobs, handlers, settings).run_forever())
    try:
        yield
    finally:
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)


async def ended(jobs, job_id, **who):
    async with asyncio.timeout(30):
        while not (job := await jobs.get(scope_of(**who), job_id)).state.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return job


async def test_a_job_runs_under_the_scope_of_who_asked_and_gives_its_result(jobs, database):
    seen = []

    async def handler(run):
        seen.append((run.scope, run.input))
        await run.save(phase="only", done=2, total=3)
        return {"count": 2}

    scope = replace(
        scope_of(chain=("helper",)), write_paths=(MemoryPath.parse("/tenants/acme/memory/working/任务"),), read_paths=()
    )
    async with running(jobs, test=handler):
        async with jobs.database.scoped(scope) as tx:
            job_id = await jobs.start(tx, scope, "test", "问\0".encode())
        job = await ended(jobs, job_id)
    assert seen == [(scope, "问\0".encode())]
    assert (job.state, job.result, job.phase, job.done_count, job.total_count, job.attempts) == (
        JobState.SUCCEEDED, {"count": 2}, "only", 2, 3, 1,
    )  # fmt: skip
    async with jobs.database.tenant("acme") as tx:
        assert await tx.fetch_value("SELECT input FROM core.jobs") == b""
        assert await tx.fetch_value("SELECT count(*) FROM core.due_jobs") == 0


async def test_a_job_is_there_with_its_transaction_only(jobs):
    with pytest.raises(DatabaseFault):
        await started_and_rolled_back(jobs)
    assert await jobs.page(scope_of(), limit=10) == []


async def test_what_was_asked_is_sealed_while_it_waits(jobs):
    await start(jobs, asked=b"canary")
    async with jobs.database.tenant("acme") as tx:
        assert b"canary" not in await tx.fetch_value("SELECT input FROM core.jobs")


async def test_others_do_not_see_it_and_administrators_of_the_tenant_do(jobs):
    job_id = await start(jobs)
    await start(jobs, user="u43")
    for who in ({"user": "u43"}, {"tenant": "globex", "roles": frozenset({"tenant-admin"})}):
        with pytest.raises(JobNotFound):
            await jobs.get(scope_of(**who), job_id)
        with pytest.raises(JobNotFound):
            await jobs.cancel(scope_of(**who), job_id)
    assert len(await jobs.page(scope_of(), limit=10)) == 1
    for role in ("tenant-admin", "operator"):
        assert len(await jobs.page(scope_of(user="boss", roles=frozenset({role})), limit=10)) == 2


async def test_pages_are_newest_first_and_whole(jobs):
    started = [await start(jobs, kind="a" if n % 2 else "b") for n in range(7)]
    found, before = [], None
    while page := await jobs.page(scope_of(), before=before, limit=3):
        found += [job.id for job in page]
        before = (page[-1].create_time, page[-1].id)
    assert found == started[::-1]
    assert [job.id for job in await jobs.page(scope_of(), kind="a", limit=10)] == started[1::2][::-1]


async def test_it_goes_on_from_its_checkpoint(jobs):
    done = []

    async def handler(run):
        for n in range(run.checkpoint.get("next", 0), 6):
            if n == 3 and run.epoch < 3:
                raise RuntimeError
            done.append(n)
            await run.save(done=n + 1, checkpoint={"next": n + 1})
        return {}

    async with running(jobs, test=handler):
        job = await ended(jobs, await start(jobs))
    assert job.state is JobState.SUCCEEDED
    assert done == list(range(6))
    assert job.attempts > 1


async def test_a_poisoned_job_fails_and_its_neighbours_run(jobs):
    async def poison(run):
        await run.save(phase="again", checkpoint={"same": 1})
        raise RuntimeError("poison")

    async def handler(run):
        return {}

    async with running(jobs, poison=poison, test=handler):
        bad = [await start(jobs, kind="poison") for _ in range(5)]
        good = [await start(jobs) for _ in range(3)] + [await start(jobs, tenant="globex")]
        for job_id, tenant in zip(good, ["acme"] * 3 + ["globex"], strict=True):
            assert (await ended(jobs, job_id, tenant=tenant)).state is JobState.SUCCEEDED
        for job_id in bad:
            job = await ended(jobs, job_id)
            assert (job.state, job.error_reason) == (JobState.FAILED, "JOB_GIVEN_UP")


async def test_an_outage_is_no_fault_of_the_job_and_a_refusal_ends_it(jobs):
    tries = 0

    async def outage(run):
        nonlocal tries
        tries += 1
        if tries <= FAST.faults_max + 3:
            raise DependencyUnavailable
        return {}

    async def refused(run):
        raise NotAllowed

    settings = JobSettings(lease_s=2, poll_s=0.02, retry_s=0.001, retry_max_s=0.01, faults_max=FAST.faults_max)
    async with running(jobs, settings, outage=outage, refused=refused):
        assert (await ended(jobs, await start(jobs, kind="outage"))).state is JobState.SUCCEEDED
        job = await ended(jobs, await start(jobs, kind="refused"))
        assert (job.state, job.error_reason, job.attempts) == (JobState.FAILED, "NOT_ALLOWED", 1)


async def test_a_job_of_an_unknown_kind_waits_for_who_knows_it(jobs):
    job_id = await start(jobs, kind="newer")

    async def handler(run):
        return {}

    async with running(jobs, test=handler):
        await ended(jobs, await start(jobs))
    job = await jobs.get(scope_of(), job_id)
    assert (job.state, job.attempts) == (JobState.QUEUED, 0)


async def test_whoever_lost_the_lease_can_write_nothing(jobs, database):
    holding, release, outcomes = asyncio.Event(), asyncio.Event(), []

    async def handler(run):
        if run.epoch > 1:
            await run.save(checkpoint={"by": "second"})
            return {"by": "second"}
        holding.set()
        await release.wait()
        try:
            async with jobs.database.scoped(run.scope) as tx:
                await run.save(checkpoint={"by": "first"}, tx=tx)
        except JobLost:
            outcomes.append("lost")
            raise
        return {"by": "first"}

    job_id = await start(jobs)
    async with running(jobs, test=handler):
        await holding.wait()
        await admin_execute(database, "UPDATE core.due_jobs SET due_time = now() - interval '1 second'")
        async with running(jobs, test=handler):
            job = await ended(jobs, job_id)
        release.set()
        async with asyncio.timeout(10):
            while not outcomes:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert job.result == {"by": "second"}
    assert (await jobs.get(scope_of(), job_id)).result == {"by": "second"}


async def test_whoever_lost_the_lease_does_not_end_the_job(jobs, database):
    async def handler(run):
        if run.epoch > 1:
            return {"by": "second"}
        await admin_execute(database, "UPDATE core.jobs SET epoch = epoch + 1")  # as another process takes it up
        await admin_execute(database, "UPDATE core.due_jobs SET due_time = now()")
        return {"by": "first"}

    job_id = await start(jobs)
    async with running(jobs, test=handler):
        job = await ended(jobs, job_id)
    assert job.result == {"by": "second"}


async def test_a_heartbeat_keeps_the_lease_and_stops_a_handler_that_lost_it(jobs, database):
    stopped, holding = asyncio.Event(), asyncio.Event()
    count = 0

    async def handler(run):
        nonlocal count
        count += 1
        holding.set()
        try:
            await asyncio.sleep(1.2)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return {}

    quick = JobSettings(lease_s=0.6, poll_s=0.02)
    async with running(jobs, quick, test=handler), running(jobs, quick, test=handler):
        assert (await ended(jobs, await start(jobs))).attempts == 1  # twice as long as the lease, in one hand
        holding.clear()
        await start(jobs)
        await holding.wait()
        await admin_execute(database, "UPDATE core.jobs SET epoch = epoch + 1 WHERE state = 2")
        await asyncio.wait_for(stopped.wait(), 5)


async def test_two_runners_share_the_jobs_and_none_runs_twice(jobs):
    ran = []

    async def handler(run):
        ran.append(run.id)
        await asyncio.sleep(0.01)
        return {}

    started = [await start(jobs, tenant=f"tenant-{n % 3}") for n in range(18)]
    async with running(jobs, test=handler), running(jobs, test=handler):
        for n, job_id in enumerate(started):
            await ended(jobs, job_id, tenant=f"tenant-{n % 3}")
    assert sorted(ran) == sorted(started)


async def test_a_tenant_with_many_jobs_does_not_keep_others_waiting(jobs):
    order = []

    async def handler(run):
        order.append(run.tenant)
        return {}

    for _ in range(20):
        await start(jobs, tenant="aaa")
    late = await start(jobs, tenant="zzz")
    async with running(jobs, test=handler):
        await ended(jobs, late, tenant="zzz")
    assert order.index("zzz") <= FAST.per_tenant_max


async def test_cancel_ends_what_waits_at_once_and_tells_what_runs(jobs):
    waiting = await start(jobs, kind="newer")
    assert (await jobs.cancel(scope_of(), waiting)).state is JobState.CANCELLED
    holding = asyncio.Event()

    async def handler(run):
        for n in range(1000):
            await run.save(done=n)
            run.stop_if_cancelled({"done": n})
            holding.set()
            await asyncio.sleep(0.01)
        return {}

    async with running(jobs, test=handler):
        job_id = await start(jobs)
        await holding.wait()
        asked = await jobs.cancel(scope_of(), job_id)
        assert (asked.state, asked.cancel_requested) == (JobState.RUNNING, True)
        job = await ended(jobs, job_id)
    assert job.state is JobState.CANCELLED
    assert job.result["done"] >= 1
    assert (await jobs.cancel(scope_of(), job_id)).state is JobState.CANCELLED


async def test_what_is_never_stopped_is_not_stopped_while_it_waits_either(db, key_ring):
    jobs = Jobs(db, "memoryfs", key_ring, UlidSource(), unstoppable=frozenset({"test"}))
    job_id = await start(jobs)
    job = await jobs.cancel(scope_of(), job_id)
    assert (job.state.ended, job.cancel_requested) == (False, True)


async def test_what_is_never_stopped_is_never_given_up_either(db, key_ring, database):
    jobs = Jobs(db, "memoryfs", key_ring, UlidSource(), unstoppable=frozenset({"test"}))
    settings = JobSettings(lease_s=2, poll_s=0.02, retry_s=0.001, retry_max_s=0.05, faults_max=2, attempts_max=4)
    tries = 0

    async def handler(run):
        nonlocal tries
        tries += 1
        if tries <= 7:
            raise RuntimeError
        return {}

    async with running(jobs, settings, test=handler):
        job = await ended(jobs, await start(jobs))
    assert job.state is JobState.SUCCEEDED
    assert tries == 8


async def test_who_waits_gives_its_place_to_others_and_goes_on_in_time(jobs):
    """Two at a time; the others begin while the first two wait, and nobody is woken by anything but its time."""
    seen = []

    async def handler(run):
        if not run.checkpoint:
            seen.append("begun")
            await run.save(checkpoint={"waited": True})
            raise JobWaits(2)
        seen.append("gone on")
        return run.checkpoint

    names = [await start(jobs) for _ in range(6)]
    async with running(jobs, JobSettings(lease_s=30, poll_s=20, per_tenant_max=2), test=handler):
        found = [await ended(jobs, job_id) for job_id in names]
    assert seen.index("gone on") > 2
    assert sorted(seen) == ["begun"] * 6 + ["gone on"] * 6
    assert {(job.state, job.attempts, job.result["waited"]) for job in found} == {(JobState.SUCCEEDED, 1, True)}


async def test_the_end_of_a_process_gives_its_jobs_back_at_once(jobs):
    holding = asyncio.Event()

    async def first(run):
        await run.save(checkpoint={"half": True})
        holding.set()
        await asyncio.Event().wait()

    async def second(run):
        return run.checkpoint

    job_id = await start(jobs)
    async with running(jobs, JobSettings(lease_s=600, poll_s=0.02), test=first):
        await holding.wait()
    async with running(jobs, test=second):
        assert (await ended(jobs, job_id)).result == {"half": True}
