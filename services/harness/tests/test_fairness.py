"""How many tasks of a tenant are held at once, whose turn it is, and who is told when nobody wakes workers."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from memoryos.harness.v1 import tasks_pb2
from psycopg import AsyncConnection

from .world import IDS, configure, eventually, make_world, serving

pytestmark = pytest.mark.integration
S = tasks_pb2.TaskState


async def count(world, what: str) -> int:
    async with await AsyncConnection.connect(world.database.admin_dsn) as admin:
        row = await (await admin.execute(what.encode())).fetchone()
    assert row is not None
    return int(row[0])


HELD = "SELECT count(*) FROM harness.tasks WHERE tenant = 'acme' AND lease_holder IS NOT NULL"
WAITING = "SELECT count(*) FROM harness.due_tasks WHERE waits"
JOBS_EVER = "SELECT last_value FROM harness_queue.procrastinate_jobs_id_seq"


async def submit(user, text: str, *, agent: str = "helper", priority: int = 0) -> str:
    request = tasks_pb2.SubmitTaskRequest(
        agent=agent, session_id=user.session_id, input=text, request_id=IDS.new("evt"), priority=priority
    )
    return (await user.tasks.SubmitTask(request, metadata=user.metadata)).task.id


async def submit_many(user, number: int, *, priority: int = 0) -> list[str]:
    await user.start_session()
    return [await submit(user, "use:mes__takt A", priority=priority) for _ in range(number)]


async def test_no_more_tasks_of_a_tenant_are_held_than_it_has_slots(world) -> None:
    user = world.client()
    world.tools.hold = asyncio.Event()
    workers = [await world.worker_process(name=name, tenant_concurrency=3, concurrency=8) for name in "ab"]
    tasks = await submit_many(user, 12)
    await eventually(lambda: _reached(world, HELD, 3))
    seen = [await count(world, HELD) for _ in range(20)]
    assert max(seen) == 3
    assert world.tools.effects["mes.takt"] <= 3
    workers[0].kill()  # its slots are free again
    await workers[0].wait()
    world.tools.hold.set()
    highest = 0
    for task in tasks:
        while (await user.get(task)).state != S.TASK_STATE_SUCCEEDED:
            highest = max(highest, await count(world, HELD))
            await asyncio.sleep(0.01)
    assert highest <= 3
    assert world.tools.effects["mes.takt"] == 12


@pytest.fixture
async def slotted(tmp_path, database):
    """A world whose server and workers know of four slots a tenant."""
    async with make_world(tmp_path, database) as made:
        configure(made, tenant_concurrency=4)
        async with serving(made):
            yield made


async def test_many_tasks_of_one_tenant_do_not_delay_another(slotted) -> None:
    world = slotted
    busy, other = world.client(), world.client("u7", tenant="globex")
    world.tools.hold = asyncio.Event()
    async with world.worker(concurrency=8):
        tasks = await submit_many(busy, 200, priority=9)
        await eventually(lambda: _reached(world, HELD, 4))
        theirs = await other.submit("hello", "plain")
        assert (await other.ended(theirs.id, 10)).state == S.TASK_STATE_SUCCEEDED
        assert await count(world, JOBS_EVER) < 30, "what waits for a slot has no job in the queue"
        world.tools.hold.set()
        for task in tasks[:3]:
            await busy.ended(task, 30)


async def test_a_higher_priority_comes_first_then_age(world) -> None:
    user = world.client()
    await user.start_session()

    blocker = (await user.submit("use:mes__takt A")).id
    world.tools.hold = asyncio.Event()
    async with world.worker(tenant_concurrency=1):
        await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
        tasks = {
            text: await submit(user, text, agent="plain", priority=priority)
            for priority, text in ((0, "a"), (5, "b"), (0, "c"), (9, "d"))
        }
        await eventually(lambda: _reached(world, WAITING, 4))
        world.tools.hold.set()
        await user.ended(blocker)
        ends = {text: (await user.ended(task)).end_time.ToDatetime() for text, task in tasks.items()}
    assert sorted(ends, key=lambda text: ends[text]) == ["d", "b", "a", "c"]


async def test_what_rests_or_waits_for_a_person_takes_no_slot(world) -> None:
    user = world.client()
    async with world.worker(tenant_concurrency=1):
        parked = await user.submit("use:refund__pay A")
        await user.until(parked.id, lambda task: task.state == S.TASK_STATE_WAITING_REVIEW)
        assert (await user.ended((await user.submit("hello", "plain")).id, 10)).state == S.TASK_STATE_SUCCEEDED


@pytest.mark.parametrize("how", ["Pause", "Cancel"])
async def test_the_slot_of_a_task_whose_lease_ran_out_goes_on_when_a_person_stops_it(world, how) -> None:
    user = world.client()
    await user.start_session()
    world.tools.hold = asyncio.Event()
    async with world.worker(tenant_concurrency=1, lease_s=600, heartbeat_s=100, sweep_s=60):
        held = await submit(user, "use:mes__takt A")
        await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
        waiting = await submit(user, "hello", agent="plain")
        await eventually(lambda: _reached(world, WAITING, 1))
        async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as admin:
            await admin.execute("UPDATE harness.tasks SET lease_expire_time = clock_timestamp() - interval '1 s'"
                                " WHERE lease_holder IS NOT NULL")  # fmt: skip
        request = getattr(tasks_pb2, f"{how}TaskRequest")(id=held, request_id=IDS.new("evt"))
        await getattr(user.tasks, f"{how}Task")(request, metadata=user.metadata)
        assert (await user.ended(waiting, 10)).state == S.TASK_STATE_SUCCEEDED
        world.tools.hold.set()


async def test_somebody_is_told_when_no_worker_sweeps(world) -> None:
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{int(world.port_file.read_text())}")
    world.channels.append(channel)
    health = health_pb2_grpc.HealthStub(channel)

    async def is_status(wanted: int) -> bool:
        try:
            return (await health.Check(health_pb2.HealthCheckRequest(service="sweeper"))).status == wanted
        except grpc.aio.AioRpcError:
            return False

    await eventually(lambda: is_status(health_pb2.HealthCheckResponse.NOT_SERVING))
    overall = await health.Check(health_pb2.HealthCheckRequest())
    assert overall.status == health_pb2.HealthCheckResponse.SERVING, "tasks are still taken"
    async with world.worker():
        await eventually(lambda: is_status(health_pb2.HealthCheckResponse.SERVING))
    await eventually(lambda: is_status(health_pb2.HealthCheckResponse.NOT_SERVING))


async def _is(holds: bool) -> bool:
    return holds


async def _reached(world, what: str, number: int) -> bool:
    return await count(world, what) >= number
