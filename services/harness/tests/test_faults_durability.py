"""Rows of the durability faults that no other test shows: see docs/reference/durability.md for the whole table."""

from __future__ import annotations

import asyncio
import threading

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_models.scripted import ScriptedReply
from memoryos_testing.postgres import admin_execute
from memoryos_testing.small_disk import database_on_small_disk

from .line import line_before
from .world import eventually, make_world, serving, takt_script

pytestmark = pytest.mark.integration
S = tasks_pb2.TaskState


async def test_the_database_is_cut_off_for_a_while_and_every_task_ends_once(world) -> None:
    user = world.client()
    async with line_before(world) as line:
        process = await world.worker_process()
        world.tools.hold = asyncio.Event()
        tasks = [await user.submit(f"use:mes__takt L{n}") for n in range(6)]
        await eventually(lambda: _is(world.tools.effects["mes.takt"] >= 3))
        await line.cut()  # in the middle of steps: what they did cannot be written down
        world.tools.hold.set()
        await asyncio.sleep(5)  # the fault itself lasts so long
        assert (await user.get(tasks[0].id)).state != S.TASK_STATE_SUCCEEDED
        line.mend()
        ended = [await user.ended(task.id, 60) for task in tasks]
        process.terminate()
        assert await process.wait() == 0
    assert {task.state for task in ended} == {S.TASK_STATE_SUCCEEDED}
    assert world.tools.effects["mes.takt"] == len(tasks), "nothing was done twice"


async def test_a_model_that_is_down_for_long_costs_attempts_and_no_step_that_was_done(world) -> None:
    user = world.client()
    down = asyncio.Event()

    def script(request):
        told = any(message["role"] == "tool" for message in request["messages"][2:])
        return ScriptedReply(status=503) if told and not down.is_set() else takt_script(request)

    world.model.script = script
    async with world.worker(retry_base_s=0.3, retry_max_s=2):
        task = await user.submit("use:mes__takt A")
        await user.until(task.id, lambda t: t.attempt >= 3)
        steps = [step for step in await user.steps(task.id) if step.state == tasks_pb2.STEP_STATE_DONE]
        down.set()
        ended = await user.ended(task.id, 60)
    assert ended.state == S.TASK_STATE_SUCCEEDED
    after = {step.id: step for step in await user.steps(task.id)}
    assert all(after[step.id] == step for step in steps)
    assert world.tools.effects == {"mes.takt": 1}


async def test_a_cancel_wins_over_a_retry_that_is_due(world) -> None:
    user = world.client()
    world.model.script = lambda request: ScriptedReply(status=503)
    async with world.worker(tries=1, retry_base_s=1, retry_max_s=1):
        task = await user.submit("use:mes__takt A")
        await user.until(task.id, lambda t: t.state == S.TASK_STATE_FAILED)
        cancelled = await user.cancel(task.id)
        assert cancelled.state == S.TASK_STATE_CANCELLED
        world.model.script = takt_script
        await user.ended((await user.submit("hello", "plain")).id)
        assert (await user.get(task.id)).attempt == 1
    assert not world.tools.effects


async def test_a_cancel_in_the_instant_in_which_the_step_fails_wins(world) -> None:
    user = world.client()
    asked, cancelled = threading.Event(), threading.Event()

    def script(request):
        asked.set()
        cancelled.wait(30)
        return ScriptedReply(status=503)

    world.model.script = script
    async with world.worker(tries=1, retry_base_s=0.05, heartbeat_s=1):
        task = await user.submit("use:mes__takt A")
        await asyncio.to_thread(asked.wait, 30)
        assert (await user.cancel(task.id)).state == S.TASK_STATE_CANCELLING
        cancelled.set()
        ended = await user.ended(task.id)
    assert (ended.state, ended.attempt) == (S.TASK_STATE_CANCELLED, 1)
    assert not world.tools.effects


async def test_a_deadline_stands_over_a_kill_and_is_seen_to_its_end(world) -> None:
    user = world.client()
    world.tools.hold = asyncio.Event()
    process = await world.worker_process()
    task = await user.submit("use:mes__takt A")
    await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
    await admin_execute(world.database, "UPDATE harness.tasks SET deadline_time = clock_timestamp() + interval '2 s'")
    before = await user.get(task.id)
    process.kill()
    await process.wait()
    async with world.worker():
        taken = await user.until(task.id, lambda t: t.lease_epoch == 2)
        assert taken.deadline_time == before.deadline_time
        await asyncio.sleep(2)  # the time that is left
        world.tools.hold.set()
        ended = await user.ended(task.id)
    assert (ended.state, ended.error_code) == (S.TASK_STATE_DEAD, "limit_seconds")
    assert ended.deadline_time == before.deadline_time
    assert world.tools.effects == {"mes.takt": 1}
    (call,) = [step for step in await user.steps(task.id) if step.kind == tasks_pb2.STEP_KIND_TOOL_CALL]
    assert b"UNKNOWN" in call.output_json, "its answer came too late to be known"


async def test_after_a_sigterm_and_a_kill_only_what_still_ran_is_tried_again(world) -> None:
    user = world.client()
    world.tools.hold = asyncio.Event()
    process = await world.worker_process(drain_s=60)
    long = await user.submit("use:mes__takt A")
    await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
    world.model.script = lambda request: ScriptedReply(content="brief", delay_s=1.0)
    brief = await user.submit("hello", "plain")
    await user.until(brief.id, lambda t: t.state == S.TASK_STATE_THINKING)
    process.terminate()
    assert (await user.ended(brief.id)).output == "brief", "its step ends while the worker drains"
    process.kill()
    await process.wait()
    world.model.script = takt_script
    world.tools.hold.set()
    async with world.worker():
        ended = await user.ended(long.id)
    assert (ended.state, ended.attempt) == (S.TASK_STATE_SUCCEEDED, 2)
    assert (await user.get(brief.id)).attempt == 1
    assert world.tools.effects == {"mes.takt": 1}


async def test_a_worker_takes_over_no_more_than_it_has_room_for(world) -> None:
    user = world.client()
    world.tools.hold = asyncio.Event()
    gone, left = [await world.worker_process(name=name, concurrency=2) for name in ("gone", "left")]
    tasks = [await user.submit(f"use:mes__takt L{n}") for n in range(8)]
    await eventually(lambda: _is(world.tools.effects["mes.takt"] == 4))
    before = {task.id: task.lease_epoch for task in [await user.get(task.id) for task in tasks]}
    gone.kill()
    await gone.wait()
    await asyncio.sleep(2)  # sweeps pass; nobody has room
    after = [await user.get(task.id) for task in tasks]
    assert world.tools.effects["mes.takt"] == 4, "nothing was started beyond the two places that are taken"
    assert {task.id: task.lease_epoch for task in after} == before, "and what runs was not started again"
    world.tools.hold.set()
    ended = [await user.ended(task.id, 60) for task in tasks]
    assert {task.state for task in ended} == {S.TASK_STATE_SUCCEEDED}
    assert world.tools.effects["mes.takt"] == len(tasks)
    assert sorted(task.attempt for task in ended) == [1] * 6 + [2] * 2
    assert left.returncode is None


@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_a_full_disk_stops_tasks_and_with_room_they_end_once(tmp_path) -> None:
    async with (
        database_on_small_disk(tmp_path, ["core", "harness"]) as disk,
        make_world(tmp_path, disk.database) as world,
        serving(world),
    ):
        user = world.client()
        world.tools.hold = asyncio.Event()
        await world.worker_process(retry_base_s=0.5, retry_max_s=5)
        tasks = [await user.submit(f"use:mes__takt L{n}") for n in range(4)]
        await eventually(lambda: _is(world.tools.effects["mes.takt"] >= 2))
        disk.fill_up()
        world.tools.hold.set()
        await eventually(lambda: _is("DiskFull" in (tmp_path / "worker.log").read_text()))
        assert S.TASK_STATE_SUCCEEDED not in {(await user.get(task.id)).state for task in tasks}
        disk.make_room()
        ended = [await user.ended(task.id, 60) for task in tasks]
        assert {task.state for task in ended} == {S.TASK_STATE_SUCCEEDED}
        assert world.tools.effects["mes.takt"] == len(tasks)


async def _is(holds: bool) -> bool:
    return holds
