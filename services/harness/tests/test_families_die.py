"""Workers of parents and children are killed, stopped and doubled: each child is one, and its effect happens once."""

import asyncio
import os
import signal

import grpc
import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_telemetry import trace_tree
from psycopg import AsyncConnection

from .family import CHILD, answers, ask, children, family_script, say, use
from .test_tokens import admin
from .world import ENDED, eventually

pytestmark = pytest.mark.chaos

SUCCEEDED = tasks_pb2.TASK_STATE_SUCCEEDED
PARTS = (ask("scout", use("mes.takt")), ask("mid", ask("low", "words")))
POINTS = [
    "harness.child.before_start",
    "harness.child.before_commit",
    "harness.child.after_start",
    *(f"harness.task.after_finish:{n}" for n in (1, 2, 3, 4)),
    *(f"harness.child.before_join:{n}" for n in (1, 2)),
    *(f"harness.child.after_join:{n}" for n in (1, 2)),
    *(f"harness.step.after_effect:{n}" for n in (2, 3, 4, 5)),
    *(f"harness.step.after_done:{n}" for n in (2, 3, 4)),
]


@pytest.fixture(autouse=True)
def scripted(world):
    world.model.script = family_script


async def rows(world, query):
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as connection:
        return await (await connection.execute(query)).fetchall()


async def check_family(world, user, task_id) -> None:
    """Each task is there once and ended once, every step is done, nothing waits any more."""
    ended = await user.ended(task_id, 40)
    assert ended.state == SUCCEEDED, ended
    assert [answer["status"] for answer in answers(ended)] == ["ok", "ok"]
    assert world.tools.effects == {"mes.takt": 1}
    below = await children(user, task_id)
    assert [task.agent for task in below] == ["scout", "mid"]
    assert [task.agent for task in await children(user, below[1].id)] == ["low"]
    assert await rows(world, "SELECT count(*), count(DISTINCT agent) FROM harness.tasks") == [(4, 4)]
    audit = await rows(world, "SELECT kind, count(*) FROM core.audit WHERE kind LIKE 'TASK%' GROUP BY kind ORDER BY 1")
    assert audit == [("TASK_FINISHED", 4), ("TASK_STARTED", 4)]
    for task in (ended, *below):
        steps = await user.steps(task.id)
        assert [step.sequence for step in steps] == list(range(1, len(steps) + 1))
        assert all(step.state == tasks_pb2.STEP_STATE_DONE for step in steps)
        events = await user.watch(task.id)
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert sum(event.state in ENDED for event in events) == 1
    assert await rows(world, "SELECT task_id FROM harness.due_tasks") == []
    assert len(await user.messages()) == 2


@pytest.mark.parametrize("point", POINTS)
async def test_kill_at_every_point_of_a_family_and_restart(world, point) -> None:
    user = world.client()
    task = await user.submit(say(*PARTS), "boss")
    await world.died(await world.worker_process(crash_point=point, concurrency=1))
    async with world.worker(concurrency=1):
        await check_family(world, user, task.id)


async def test_a_family_that_is_killed_again_and_again_by_two_workers_ends_once(world) -> None:
    user = world.client()
    task = await user.submit(say(*PARTS), "boss")
    for point in ("harness.child.after_start", "harness.step.after_effect:2", "harness.task.after_finish"):
        first, second = [await world.worker_process(crash_point=point, name=name, concurrency=2) for name in "ab"]
        async with asyncio.timeout(60):
            await asyncio.wait([asyncio.create_task(p.wait()) for p in (first, second)],
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        for process in (first, second):
            if process.returncode is None:
                process.kill()
                await process.wait()
    async with world.worker(worker_name="a"), world.worker(worker_name="b"):
        await check_family(world, user, task.id)


async def test_two_workers_run_twenty_families_once_each(world) -> None:
    user = world.client()
    await user.start_session()
    async with world.worker(worker_name="a"), world.worker(worker_name="b"):
        tasks = [await user.submit(say(ask("scout", use("mes.takt")), ask("scout", "x")), "boss") for _ in range(20)]
        ended = await asyncio.gather(*(user.ended(task.id, 60) for task in tasks))
    assert {task.state for task in ended} == {SUCCEEDED}
    assert world.tools.effects == {"mes.takt": 20}
    assert await rows(world, "SELECT count(*) FROM harness.tasks") == [(60,)]


async def test_families_that_are_cancelled_at_any_instant_end_whole(world) -> None:
    user = world.client()
    await user.start_session()
    part = ask("mid", ask("scout", use("mes.takt")), ask("scout", use("slow.report")))
    async with world.worker(worker_name="a"), world.worker(worker_name="b"):
        tasks = [await user.submit(say(part, ask("scout", use("mes.takt"))), "boss") for _ in range(24)]

        async def stop(task_id: str, at: int) -> tasks_pb2.Task:
            """Cancel a task of the family once it has so many events: anywhere between its start and its end."""
            await user.until(task_id, lambda t: t.state in ENDED or t.step_count >= at // 4)
            below = await children(user, task_id)
            wanted = below[at % len(below)].id if below and at % 3 == 0 else task_id
            try:
                await user.cancel(wanted)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:  # it had ended
                    raise
            return await user.ended(task_id, 60)

        ended = await asyncio.gather(*(stop(task.id, at) for at, task in enumerate(tasks)))
    assert {task.state for task in ended} <= {SUCCEEDED, tasks_pb2.TASK_STATE_CANCELLED}
    alive = await rows(world, "SELECT id, state FROM harness.tasks WHERE end_time IS NULL")
    assert alive == []
    assert await rows(world, "SELECT task_id FROM harness.due_tasks") == []
    late = "child.end_time > parent.end_time"
    pairs = "FROM harness.tasks child JOIN harness.tasks parent ON parent.id = child.parent_task_id"
    assert await rows(world, f"SELECT child.id {pairs} WHERE {late}") == []
    finished = "SELECT task_id FROM core.audit WHERE kind = 'TASK_FINISHED' GROUP BY task_id HAVING count(*) > 1"
    assert await rows(world, finished) == []


async def test_a_worker_of_a_child_that_comes_back_after_its_lease_ends_nothing_twice(world) -> None:
    world.tools.hold = asyncio.Event()
    user = world.client()
    task = await user.submit(say(*PARTS), "boss")
    first = await world.worker_process()
    await eventually(lambda: _async(world.tools.effects))
    os.kill(first.pid, signal.SIGSTOP)
    try:
        async with world.worker():
            (scout, _) = await children(user, task.id)
            await user.until(scout.id, lambda t: t.lease_epoch == 2)
            world.tools.hold.set()
            await user.ended(task.id)
            os.kill(first.pid, signal.SIGCONT)
            await check_family(world, user, task.id)
    finally:
        os.kill(first.pid, signal.SIGCONT)


async def test_a_parent_whose_child_was_killed_while_it_is_cancelled_is_cancelled_after_it(world) -> None:
    user = world.client()
    task = await user.submit(say(ask("scout", use("mes.takt"), use("mes.takt", "B"))), "boss")
    # Passes of after_effect: the parent's model call, the child's, and the child's first tool call.
    await world.died(await world.worker_process(crash_point="harness.step.after_effect:3", concurrency=1))
    await user.cancel(task.id)
    async with world.worker():
        ended = await user.ended(task.id)
    assert ended.state == tasks_pb2.TASK_STATE_CANCELLED
    (scout,) = await children(user, task.id)
    assert scout.state == tasks_pb2.TASK_STATE_CANCELLED
    assert scout.end_time.ToDatetime() <= ended.end_time.ToDatetime()
    assert world.tools.effects == {"mes.takt": 1}


async def test_revoked_while_the_worker_was_dead_nothing_goes_on(world) -> None:
    user = world.client()
    task = await user.submit(say(*PARTS), "boss")
    await world.died(await world.worker_process(crash_point="harness.child.after_start", concurrency=1))
    asked = len(world.model.requests)
    await admin(world).revoke("user:u42")
    async with world.worker():
        ended = await user.ended(task.id)
    assert (ended.state, ended.error_code) == (tasks_pb2.TASK_STATE_DEAD, "access_revoked")
    for child in await children(user, task.id):  # by its own look, or with its parent
        assert child.error_code == "access_revoked" or child.state == tasks_pb2.TASK_STATE_CANCELLED
    assert len(world.model.requests) == asked
    assert not world.tools.effects


async def test_a_family_is_one_connected_trace_across_a_kill(world) -> None:
    user = world.client()
    task = await user.submit(say(*PARTS), "boss")
    await world.died(await world.worker_process(crash_point="harness.child.after_start", concurrency=1))
    second = await world.worker_process()
    ended = await user.ended(task.id)
    assert ended.state == SUCCEEDED
    second.terminate()
    assert await second.wait() == 0
    tree = trace_tree(world.folder / "spans", task.trace_id)
    assert tree.connected, tree.render()
    by_id = {span.span_id: span for span in tree.spans}
    for agent, above in (("scout", "boss"), ("mid", "boss"), ("low", "mid")):
        runs = [span for span in tree.spans if span.name == f"invoke_agent {agent}"]
        assert runs, tree.render()
        for span in runs:
            call = by_id[span.parent_id]
            assert call.name == f"execute_tool agent.{agent}"
            assert by_id[call.parent_id].name == f"invoke_agent {above}"
    assert {t.trace_id for t in await children(user, task.id)} == {task.trace_id}
    assert [step.kind for step in await user.steps(task.id)].count(CHILD) == 2


async def _async(value):
    return value
