"""People pause, resume, cancel and retry families of tasks while workers are killed: nothing is left behind."""

import asyncio
import contextlib
import json
import random
from collections import Counter

import grpc
import pytest
from memoryos.harness.v1 import tasks_pb2
from psycopg import AsyncConnection

from .family import ask, family_script, say, use
from .world import ENDED, IDS, Client, World, configure, eventually, make_world, serving

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]
S = tasks_pb2.TaskState
FAMILIES, PEOPLE, KILLS, SLOTS = 10, 3, 10, 3
VERBS = (*["Pause"] * 8, *["Resume"] * 12, *["Retry"] * 4, "Cancel")
STORM_S = 12.0
SETTLED_S = 60.0
"""Far less than the 300 s after which a parent looks at its children by itself: a lost wake-up is seen."""


@pytest.fixture
async def world(tmp_path, database):
    async with make_world(tmp_path, database) as made:
        configure(made, tenant_concurrency=SLOTS, concurrency=4)
        made.model.script = family_script
        async with serving(made):
            yield made


async def listed(user: Client) -> list[tasks_pb2.Task]:
    """All tasks of the user, children too."""
    found: list[tasks_pb2.Task] = []
    token = ""
    while True:
        page = await user.tasks.ListTasks(
            tasks_pb2.ListTasksRequest(page_size=100, page_token=token), metadata=user.metadata
        )
        found += page.tasks
        token = page.next_page_token
        if not token:
            return found


async def tell(user: Client, verb: str, task_id: str) -> None:
    """Ask for something that the task's state may forbid."""
    request = getattr(tasks_pb2, f"{verb}TaskRequest")(id=task_id, request_id=IDS.new("evt"))
    try:
        await getattr(user.tasks, f"{verb}Task")(request, metadata=user.metadata)
    except grpc.aio.AioRpcError as error:
        if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED):
            raise


async def worries(user: Client, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(rng.uniform(0.0, 0.1))
        await tell(user, rng.choice(VERBS), rng.choice(await listed(user)).id)


async def kills(world: World, rng: random.Random) -> None:
    workers = [await world.worker_process(name=f"w{n}") for n in range(2)]
    for number in range(KILLS):
        await asyncio.sleep(rng.uniform(0.2, 2 * STORM_S / KILLS - 0.2))
        victim = rng.randrange(2)
        workers[victim].kill()
        await workers[victim].wait()
        workers[victim] = await world.worker_process(name=f"w{number + 2}")


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_of_people_and_kills_leaves_no_task_behind(world, seed) -> None:
    rng = random.Random(seed)
    user = world.client()
    for n in range(FAMILIES):
        inside = [
            ask("scout", use("mes.takt", f"{n}a")),
            ask("mid", ask("scout", use("mes.takt", f"{n}b"))),
            use("mes.takt", f"{n}c"),
        ]
        await user.submit(say(*inside), "boss")
    people = [asyncio.create_task(worries(user, random.Random(rng.random()))) for _ in range(PEOPLE)]
    await kills(world, rng)
    for person in people:
        person.cancel()
    done = await asyncio.gather(*people, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done), done

    async def settled() -> bool:
        tasks = await listed(user)
        for task in tasks:
            if task.state == S.TASK_STATE_PAUSED:
                await tell(user, "Resume", task.id)
        return all(task.state in ENDED for task in tasks)

    with contextlib.suppress(TimeoutError):
        await eventually(settled, SETTLED_S / 4)
    tasks = await listed(user)
    left = [(task.id, task.agent, S.Name(task.state), task.parent_task_id) for task in tasks if task.state not in ENDED]
    assert not left, await rows(world, "SELECT * FROM harness.due_tasks")
    log = (world.folder / "worker.log").read_text()
    assert "Violation" not in log, "a worker broke a rule of the schema"
    lines = Counter(json.loads(kept.arguments)["line"] for kept in world.tools.calls.values() if kept.outcome.ended)
    assert max(lines.values(), default=1) == 1, "nothing was done twice"
    assert await rows(world, "SELECT * FROM harness.due_tasks") == []
    assert await rows(world, "SELECT * FROM harness.tasks WHERE lease_holder IS NOT NULL OR pause_requested") == []
    for task in tasks:
        steps = await user.steps(task.id)
        assert [step.sequence for step in steps] == list(range(1, len(steps) + 1))
        assert tasks_pb2.STEP_STATE_STARTED not in {step.state for step in steps}, task


async def rows(world: World, query: str) -> list[tuple]:
    async with await AsyncConnection.connect(world.database.admin_dsn) as admin:
        return await (await admin.execute(query.encode())).fetchall()
