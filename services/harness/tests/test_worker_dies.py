"""Workers are killed, stopped and doubled; the task ends right and its effect happens once."""

import asyncio
import os
import signal

import grpc
import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_postgres import roles
from psycopg import AsyncConnection

from .world import ENDED, eventually

pytestmark = pytest.mark.chaos

# Steps of the task: 1 recall, 2 model, 3 tool, 4 model.
POINTS = [
    *(f"harness.step.before_journal:{n}" for n in (1, 2, 3)),
    *(f"harness.step.after_started:{n}" for n in (1, 2, 3)),
    *(f"harness.step.after_effect:{n}" for n in (1, 2, 3)),
    *(f"harness.step.after_done:{n}" for n in (2, 3, 4)),
    "harness.task.before_finish",
]


async def check_ended_once(world, user, task_id: str) -> None:
    """The answer is there once, the effect happened once, the journal has no gap and one terminal event."""
    ended = await user.ended(task_id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED, ended
    assert '"takt_s": 42' in ended.output
    assert world.tools.effects == {"mes.takt": 1}
    assert len(world.tools.calls) == 1
    steps = await user.steps(task_id)
    assert [step.sequence for step in steps] == [1, 2, 3, 4]
    assert all(step.state == tasks_pb2.STEP_STATE_DONE for step in steps)
    assert len(await user.messages()) == 2
    events = await user.watch(task_id)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert sum(event.state in ENDED for event in events) == 1


@pytest.mark.parametrize("point", POINTS)
async def test_kill_at_every_crash_point_and_restart(world, point) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    await world.died(await world.worker_process(crash_point=point))
    asked_before = len(world.model.requests)
    finished = sum(s.kind == tasks_pb2.STEP_KIND_MODEL_CALL and s.state == tasks_pb2.STEP_STATE_DONE
                   for s in await user.steps(task.id))  # fmt: skip
    async with world.worker():
        await check_ended_once(world, user, task.id)
    # A finished model call is never made again.
    assert len(world.model.requests) == asked_before + 2 - finished


async def test_a_worker_that_comes_back_after_its_lease_changes_nothing(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    task = await user.submit("use:mes__takt A")
    first = await world.worker_process()
    await eventually(lambda: _async(world.tools.effects))
    os.kill(first.pid, signal.SIGSTOP)
    try:
        async with world.worker():
            taken = await user.until(task.id, lambda t: t.lease_epoch == 2)
            assert taken.state not in ENDED
            world.tools.hold.set()
            await check_ended_once(world, user, task.id)
            before = await user.get(task.id)
            os.kill(first.pid, signal.SIGCONT)
            # It goes on to work for others, and what it still holds of this task is refused.
            log = world.folder / "worker.log"
            await eventually(lambda: _async("refused" in log.read_text() or "lease lost" in log.read_text()))
            assert first.returncode is None
        assert await user.get(task.id) == before
        other = await user.submit("hello", "plain")
        assert (await user.ended(other.id)).state == tasks_pb2.TASK_STATE_SUCCEEDED
    finally:
        os.kill(first.pid, signal.SIGCONT)


async def test_two_workers_run_forty_tasks_once_each(world) -> None:
    user = world.client()
    await user.start_session()
    async with world.worker(worker_name="a"), world.worker(worker_name="b"):
        tasks = await asyncio.gather(*(user.submit("use:mes__takt A", "short") for _ in range(40)))
        ended = await asyncio.gather(*(user.ended(task.id, 60) for task in tasks))
    assert {task.state for task in ended} == {tasks_pb2.TASK_STATE_SUCCEEDED}
    assert world.tools.effects == {"mes.takt": 40}
    assert {task.lease_epoch for task in ended} == {1}


async def test_a_worker_restarted_under_the_same_name_waits_for_the_lease(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    await world.died(await world.worker_process(crash_point="harness.step.after_effect:3", name="same"))
    await world.worker_process(name="same")
    await check_ended_once(world, user, task.id)
    assert (await user.get(task.id)).attempt == 2


async def test_a_worker_that_is_gone_is_not_waited_for(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    await world.died(await world.worker_process(crash_point="harness.step.after_effect:3", lease_s=300))
    async with world.worker(lease_s=300):
        await check_ended_once(world, user, task.id)
    assert (await user.get(task.id)).attempt == 2


async def test_a_worker_that_lives_is_left_its_tasks(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    task = await user.submit("use:mes__takt A")
    await world.worker_process(lease_s=300)
    await eventually(lambda: _async(world.tools.effects))
    async with world.worker(lease_s=300):
        other = world.client("u7")
        await other.ended((await other.submit("hello", "plain")).id)
        assert (await user.get(task.id)).lease_epoch == 1
        world.tools.hold.set()
        await check_ended_once(world, user, task.id)
    assert (await user.get(task.id)).lease_epoch == 1


async def test_all_connections_break_and_every_task_still_ends_once(world) -> None:
    user = world.client()
    await user.start_session()
    first = await world.worker_process(lease_s=300)
    tasks = [await user.submit("use:mes__takt A") for _ in range(5)]

    async def seen() -> list[tasks_pb2.Task]:
        try:
            return [await user.get(task.id) for task in tasks]
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return []

    async def begun() -> bool:
        return any(task.step_count > 0 for task in await seen())

    async def ended() -> bool:
        now = await seen()
        return bool(now) and all(task.state in ENDED for task in now)

    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as admin:
        for _ in range(3):
            await eventually(begun)
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE usename = 'memoryos_harness' AND datname = current_database()"
            )
    await eventually(ended, 40)
    assert {task.state for task in await seen()} == {tasks_pb2.TASK_STATE_SUCCEEDED}
    assert world.tools.effects == {"mes.takt": 5}
    assert first.returncode is None


async def test_all_workers_die_and_a_task_queued_meanwhile_is_run(world) -> None:
    user = world.client()
    task = await user.submit("use:refund__pay A")
    first = await world.worker_process()
    await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
    first.kill()
    await first.wait()
    world.tools.approved.update(world.tools.parked)
    queued = await user.submit("hello", "plain")
    await world.worker_process()
    assert (await user.ended(task.id)).state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert (await user.ended(queued.id)).state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert world.tools.effects == {"refund.pay": 1}


async def test_killed_in_the_instant_of_the_approved_effect(world) -> None:
    user = world.client()
    task = await user.submit("use:refund__pay A")
    # Passes of after_effect: recall, model, the look that parks, the look that runs the approved call.
    first = await world.worker_process(
        crash_point="harness.step.after_effect:4", review_poll_min_s=3, review_poll_max_s=3
    )
    await user.until(task.id, lambda t: t.state == tasks_pb2.TASK_STATE_WAITING_REVIEW)
    world.tools.approved.update(world.tools.parked)
    await world.died(first)
    assert world.tools.effects == {"refund.pay": 1}
    async with world.worker():
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_SUCCEEDED
    assert world.tools.effects == {"refund.pay": 1}


async def test_a_queue_job_stuck_in_doing_blocks_nothing(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    async with await AsyncConnection.connect(world.database.dsn(roles.HARNESS), autocommit=True) as queue:
        await queue.execute("UPDATE harness_queue.procrastinate_jobs SET status = 'doing'")
        async with world.worker():
            await check_ended_once(world, user, task.id)

            async def empty() -> bool:
                row = await (await queue.execute("SELECT count(*) FROM harness_queue.procrastinate_jobs")).fetchone()
                return row == (0,)

            await eventually(empty)


async def test_a_lost_queue_loses_no_task(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    async with await AsyncConnection.connect(world.database.dsn(roles.HARNESS), autocommit=True) as queue:
        await queue.execute("DELETE FROM harness_queue.procrastinate_jobs")
    async with world.worker():
        await check_ended_once(world, user, task.id)


async def test_sigterm_lets_the_step_end_and_the_next_worker_goes_on(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    task = await user.submit("use:mes__takt A")
    first = await world.worker_process()
    await eventually(lambda: _async(world.tools.effects))
    for _ in range(3):
        first.terminate()
    world.tools.hold.set()
    async with asyncio.timeout(30):
        assert await first.wait() == 0
    left = await user.get(task.id)
    assert left.state not in ENDED
    (call,) = [s for s in await user.steps(task.id) if s.kind == tasks_pb2.STEP_KIND_TOOL_CALL]
    assert call.state == tasks_pb2.STEP_STATE_DONE
    async with world.worker():
        await check_ended_once(world, user, task.id)
    assert (await user.get(task.id)).attempt == 1  # a hand-over is no failed attempt


async def test_sigterm_with_a_step_that_does_not_end_gives_the_task_back(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    task = await user.submit("use:mes__takt A")
    first = await world.worker_process(drain_s=0.5)
    await eventually(lambda: _async(world.tools.effects))
    first.terminate()
    async with asyncio.timeout(30):
        assert await first.wait() == 0
    world.tools.hold.set()
    async with world.worker():
        await check_ended_once(world, user, task.id)


async def test_a_task_that_kills_every_worker_ends_dead(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A", "short")
    for _ in range(2):
        await world.died(await world.worker_process(crash_point="harness.step.after_started:1"))
    async with world.worker():
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_DEAD
    assert ended.error_code == "attempts"


async def test_a_task_of_an_erased_user_ends_and_wakes_nobody_any_more(world) -> None:
    user = world.client()
    task = await user.submit("hello", "plain")
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as admin:
        await admin.execute("DELETE FROM core.data_keys WHERE subject_hmac <> 'root'")
        async with world.worker():

            async def state() -> str | None:
                row = await (await admin.execute("SELECT state, error_code FROM harness.tasks")).fetchone()
                return row if row and row[0] == "DEAD" else None

            assert await eventually(state) == ("DEAD", "sealed_key_unavailable")
            left = await (await admin.execute("SELECT count(*) FROM harness.due_tasks")).fetchone()
            assert left == (0,)
            keys = await (await admin.execute("SELECT count(*) FROM core.data_keys")).fetchone()
            assert keys == (1,)
    assert task.id


async def test_cancel_after_the_worker_died_ends_the_task(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    await world.died(await world.worker_process(crash_point="harness.step.after_effect:3"))
    await user.cancel(task.id)
    async with world.worker():
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_CANCELLED
    (call,) = [s for s in await user.steps(task.id) if s.kind == tasks_pb2.STEP_KIND_TOOL_CALL]
    assert call.state == tasks_pb2.STEP_STATE_FAILED
    assert b"UNKNOWN" in call.output_json
    assert world.tools.effects == {"mes.takt": 1}


async def _async(value):
    return value
