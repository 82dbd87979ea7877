"""People let tasks rest, go on and be tried again; lists of tasks; what a submission may wish for."""

import asyncio
import contextlib

import grpc
import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_models.scripted import ScriptedReply
from psycopg import AsyncConnection

from .scripts import AGENTS, once
from .world import IDS, eventually, make_world, refused, serving, takt_script, write_agents

S = tasks_pb2.TaskState


@pytest.fixture
async def world(tmp_path, database):
    async with make_world(tmp_path, database) as made:
        write_agents(made.folder / "agents")
        write_agents(made.folder / "agents", AGENTS)
        async with serving(made):
            yield made


async def ask(user, verb: str, task_id: str, request_id: str = "", **fields) -> tasks_pb2.Task:
    request = getattr(tasks_pb2, f"{verb}TaskRequest")(id=task_id, request_id=request_id or IDS.new("evt"), **fields)
    return (await getattr(user.tasks, f"{verb}Task")(request, metadata=user.metadata)).task


async def listed(user, **fields) -> tasks_pb2.ListTasksResponse:
    return await user.tasks.ListTasks(tasks_pb2.ListTasksRequest(**fields), metadata=user.metadata)


async def states_of(user, task_id: str) -> list[int]:
    return [event.state for event in await user.watch(task_id)]


async def test_a_task_that_nobody_holds_rests_at_once_and_goes_on_when_resumed(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    assert (await ask(user, "Pause", task.id)).state == S.TASK_STATE_PAUSED
    assert (await ask(user, "Pause", task.id)).state == S.TASK_STATE_PAUSED
    async with world.worker():
        other = await user.submit("hello", "plain")
        await user.ended(other.id)
        assert (await user.get(task.id)).state == S.TASK_STATE_PAUSED
        assert (await ask(user, "Resume", task.id)).state == S.TASK_STATE_RETRY
        assert (await user.ended(task.id)).state == S.TASK_STATE_SUCCEEDED
    seen = await states_of(user, task.id)
    assert seen[:3] == [S.TASK_STATE_IDLE, S.TASK_STATE_PAUSED, S.TASK_STATE_RETRY]
    assert world.tools.effects == {"mes.takt": 1}


async def test_a_task_under_way_rests_after_its_step_and_repeats_nothing(world) -> None:
    user = world.client()
    world.tools.hold = asyncio.Event()
    async with world.worker():
        task = await user.submit("use:mes__takt A")
        await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
        assert (await ask(user, "Pause", task.id)).state == S.TASK_STATE_TOOL_CALLING
        world.tools.hold.set()
        rests = await user.until(task.id, lambda t: t.state == S.TASK_STATE_PAUSED)
        steps = await user.steps(task.id)
        assert [step.state for step in steps] == [tasks_pb2.STEP_STATE_DONE] * len(steps)
        before = len(world.model.requests)
        await ask(user, "Resume", task.id)
        ended = await user.ended(task.id)
    assert ended.state == S.TASK_STATE_SUCCEEDED
    assert ended.step_count == rests.step_count + 1
    assert len(world.model.requests) == before + 1
    assert world.tools.effects == {"mes.takt": 1}


async def test_a_pause_that_is_taken_back_in_time_changes_nothing(world) -> None:
    user = world.client()
    world.tools.hold = asyncio.Event()
    async with world.worker():
        task = await user.submit("use:mes__takt A")
        await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
        await ask(user, "Pause", task.id)
        assert (await ask(user, "Resume", task.id)).state == S.TASK_STATE_TOOL_CALLING
        world.tools.hold.set()
        assert (await user.ended(task.id)).state == S.TASK_STATE_SUCCEEDED
    assert S.TASK_STATE_PAUSED not in await states_of(user, task.id)


async def test_a_worker_that_dies_while_it_was_asked_to_rest_leaves_a_task_at_rest(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    world.tools.hold = asyncio.Event()
    process = await world.worker_process()
    await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
    await ask(user, "Pause", task.id)
    process.kill()
    await process.wait()
    world.tools.hold.set()
    async with world.worker():
        await user.until(task.id, lambda t: t.state == S.TASK_STATE_PAUSED)
        await ask(user, "Resume", task.id)
        assert (await user.ended(task.id)).state == S.TASK_STATE_SUCCEEDED
    assert world.tools.effects == {"mes.takt": 1}


async def test_a_worker_that_comes_back_late_is_fenced_off_a_task_at_rest(world) -> None:
    user = world.client()
    task = await user.submit("use:mes__takt A")
    world.tools.hold = asyncio.Event()
    async with world.worker(lease_s=600, heartbeat_s=100):
        await eventually(lambda: _is(world.tools.effects["mes.takt"] == 1))
        await _sql(world, "UPDATE harness.tasks SET lease_expire_time = clock_timestamp() - interval '1 s'")
        assert (await ask(user, "Pause", task.id)).state == S.TASK_STATE_PAUSED
        world.tools.hold.set()
        await user.ended((await user.submit("hello", "plain")).id)
        steps = await user.steps(task.id)
        assert steps[-1].state == tasks_pb2.STEP_STATE_STARTED, "its write came after the pause"
        await ask(user, "Resume", task.id)
        assert (await user.ended(task.id)).state == S.TASK_STATE_SUCCEEDED
    assert world.tools.effects == {"mes.takt": 1}


async def test_a_review_stays_open_while_its_task_rests(world) -> None:
    user = world.client()
    async with world.worker():
        task = await user.submit("use:refund__pay A")
        await user.until(task.id, lambda t: t.state == S.TASK_STATE_WAITING_REVIEW)
        assert (await ask(user, "Pause", task.id)).state == S.TASK_STATE_PAUSED
        world.tools.approved.update(world.tools.parked)
        await user.ended((await user.submit("hello", "plain")).id)
        assert not world.tools.effects["refund.pay"]
        await ask(user, "Resume", task.id)
        assert (await user.ended(task.id)).state == S.TASK_STATE_SUCCEEDED
    assert world.tools.effects["refund.pay"] == 1


async def test_time_at_rest_does_not_count(world) -> None:
    user = world.client()
    task = await user.submit("hello", "plain")
    before = task.deadline_time.ToDatetime() - task.create_time.ToDatetime()
    await ask(user, "Pause", task.id)
    await _sql(world, "UPDATE harness.tasks SET park_time = park_time - interval '2 h'")
    resumed = await ask(user, "Resume", task.id)
    later = resumed.deadline_time.ToDatetime() - resumed.create_time.ToDatetime()
    assert later.total_seconds() >= before.total_seconds() + 7200


async def test_a_call_that_was_handed_over_is_answered_by_the_persons_word(world) -> None:
    world.tools.failing["mes.takt"] = ["upstream_status"]
    world.model.script = once("mes__takt")
    user = world.client()
    async with world.worker():
        task = await user.submit("please", "handing")
        await user.until(task.id, lambda t: t.state == S.TASK_STATE_PAUSED)
        await ask(user, "Resume", task.id, note="我看过了：节拍是 41 秒")
        ended = await user.ended(task.id)
    assert ended.state == S.TASK_STATE_SUCCEEDED
    assert "41" in ended.output


async def test_a_word_that_would_reach_nobody_is_refused(world) -> None:
    user = world.client()
    task = await user.submit("hello", "plain")
    await ask(user, "Pause", task.id)
    async with refused("INVALID_FIELD"):
        await ask(user, "Resume", task.id, note="go on")
    assert (await user.get(task.id)).state == S.TASK_STATE_PAUSED


async def test_a_dead_task_is_tried_again_and_goes_on_where_it_stood(world) -> None:
    user = world.client()
    broken = True

    def script(request):
        told = any(message["role"] == "tool" for message in request["messages"][2:])
        return ScriptedReply(status=503) if broken and told else takt_script(request)

    world.model.script = script
    async with world.worker(tries=1):
        task = await user.submit("use:mes__takt A", "short")
        dead = await user.ended(task.id)
        assert dead.state == S.TASK_STATE_DEAD
        done = [step for step in await user.steps(task.id) if step.state == tasks_pb2.STEP_STATE_DONE]
        broken = False
        again = await ask(user, "Retry", task.id)
        assert (again.state, again.error_code) == (S.TASK_STATE_RETRY, "")
        ended = await user.ended(task.id)
    assert ended.state == S.TASK_STATE_SUCCEEDED
    assert (await user.steps(task.id))[: len(done)] == done
    assert world.tools.effects == {"mes.takt": 1}
    seen = await states_of(user, task.id)
    assert S.TASK_STATE_DEAD in seen[:-1], "whoever follows it sees the first end, and what came after"
    assert seen[-1] == S.TASK_STATE_SUCCEEDED


async def test_a_task_out_of_time_gets_all_of_it_again(world) -> None:
    user = world.client()
    task = await user.submit("hello", "short")
    await _sql(world, "UPDATE harness.tasks SET deadline_time = clock_timestamp() - interval '1 s'")
    async with world.worker():
        assert (await user.ended(task.id)).error_code == "limit_seconds"
        again = await ask(user, "Retry", task.id)
        left = again.deadline_time.ToDatetime() - again.update_time.ToDatetime()
        assert 59 <= left.total_seconds() <= 61
        assert (await user.ended(task.id)).state == S.TASK_STATE_SUCCEEDED


async def test_what_the_state_forbids_is_refused(world) -> None:
    user = world.client()
    task = await user.submit("hello", "plain")
    for verb in ("Resume", "Retry"):
        async with refused("TASK_STATE_FORBIDS"):
            await ask(user, verb, task.id)
    async with world.worker():
        await user.ended(task.id)
    for verb, reason in (("Pause", "TASK_ENDED"), ("Resume", "TASK_ENDED"), ("Retry", "TASK_STATE_FORBIDS")):
        async with refused(reason):
            await ask(user, verb, task.id)
    for verb in ("Pause", "Resume", "Retry"):
        async with refused("TASK_NOT_FOUND"):
            await ask(world.client("u43"), verb, task.id)


async def test_an_agent_lets_no_task_go_on(world) -> None:
    user, agent = world.client(), world.client(roles=("agent",), chain=("helper",))
    task = await user.submit("hello", "plain")
    await ask(user, "Pause", task.id)
    for verb in ("Resume", "Retry"):
        async with refused("ROLE_REQUIRED"):
            await ask(agent, verb, task.id)


async def test_a_request_that_comes_twice_is_one(world) -> None:
    user = world.client()
    task = await user.submit("hello", "plain")
    await ask(user, "Pause", task.id, "p-1")
    await ask(user, "Resume", task.id, "r-1")
    assert (await ask(user, "Pause", task.id, "p-1")).state == S.TASK_STATE_RETRY, "the first one was long ago"
    async with refused("REQUEST_ID_REUSED"):
        await ask(user, "Resume", task.id, "r-1", note="another body")
    both = await asyncio.gather(*(ask(user, "Pause", task.id) for _ in range(5)))
    assert {one.state for one in both} == {S.TASK_STATE_PAUSED}


async def test_pause_resume_and_cancel_at_any_instant_end_right(world) -> None:
    """Whoever comes first: the task ends once, and its effect happens at most once."""
    user = world.client()

    async def worry(task_id: str, number: int) -> None:
        for turn in range(4):
            verb = ("Pause", "Resume")[turn % 2]
            with contextlib.suppress(grpc.aio.AioRpcError):  # it has ended, or does not rest yet
                await ask(user, verb, task_id)
            await asyncio.sleep(0.003 * number)
        if number % 4 == 0:
            await user.cancel(task_id)

    async with world.worker(), world.worker():
        tasks = [await user.submit(f"use:mes__takt L{n}") for n in range(16)]
        await asyncio.gather(*(worry(task.id, n) for n, task in enumerate(tasks)), return_exceptions=True)
        for task in tasks:
            if (await user.get(task.id)).state == S.TASK_STATE_PAUSED:
                await ask(user, "Resume", task.id)
        ended = [await user.ended(task.id, 60) for task in tasks]
    assert {task.state for task in ended} <= {S.TASK_STATE_SUCCEEDED, S.TASK_STATE_CANCELLED}
    assert world.tools.effects["mes.takt"] <= len(tasks)
    for task in ended:
        steps = await user.steps(task.id)
        assert [step.sequence for step in steps] == list(range(1, len(steps) + 1))


async def test_tasks_are_listed_by_what_is_asked_for_in_pages(world) -> None:
    user = world.client()
    tasks = [await user.submit(f"hello {n}", "plain") for n in range(5)]
    await ask(user, "Pause", tasks[0].id)
    await world.client("u43").submit("not yours", "plain")
    assert [task.id for task in (await listed(user)).tasks] == [task.id for task in reversed(tasks)]
    first = await listed(user, page_size=2)
    second = await listed(user, page_size=2, page_token=first.next_page_token)
    third = await listed(user, page_size=2, page_token=second.next_page_token)
    found = [task.id for page in (first, second, third) for task in page.tasks]
    assert (found, third.next_page_token) == ([task.id for task in reversed(tasks)], "")
    paused = await listed(user, states=[S.TASK_STATE_PAUSED])
    assert [(task.id, task.input) for task in paused.tasks] == [(tasks[0].id, "hello 0")]
    assert not (await listed(user, agent="helper")).tasks
    assert len((await listed(user, session_id=user.session_id)).tasks) == 5
    for other in ({"states": [S.TASK_STATE_PAUSED]}, {"agent": "plain"}):
        async with refused("INVALID_PAGE_TOKEN"):
            await listed(user, page_token=first.next_page_token, **other)
    async with refused("INVALID_PAGE_TOKEN"):
        await listed(world.client("u43"), page_size=2, page_token=first.next_page_token)


async def test_an_overseer_counts_tasks_of_all_users_and_reads_none(world) -> None:
    await world.client("u42").submit("secret of u42", "plain")
    await world.client("u43").submit("secret of u43", "plain")
    await world.client("u44", tenant="globex").submit("of another tenant", "plain")
    for role in ("operator", "auditor"):
        seen = (await listed(world.client("oz", roles=(role,)), all_users=True)).tasks
        assert {task.actor.user for task in seen} == {"u42", "u43"}
        assert not any(task.input or task.output or task.HasField("limits") for task in seen)
    async with refused("ROLE_REQUIRED"):
        await listed(world.client("u42"), all_users=True)
    assert not (await listed(world.client("oz", roles=("operator",)))).tasks


async def test_a_submission_narrows_limits_and_never_widens_them(world) -> None:
    user = world.client()
    await user.start_session()

    async def submit(priority: int = 0, **limits: int) -> tasks_pb2.Task:
        request = tasks_pb2.SubmitTaskRequest(
            agent="short", session_id=user.session_id, input="use:mes__takt A", request_id=IDS.new("evt"),
            priority=priority, limits=tasks_pb2.TaskLimits(**limits),
        )  # fmt: skip
        return (await user.tasks.SubmitTask(request, metadata=user.metadata)).task

    plain, less, more = await submit(), await submit(7, steps=1, seconds=30), await submit(steps=400, calls=90)
    assert (less.limits.steps, less.limits.seconds, less.limits.calls, less.priority) == (1, 30, 1, 7)
    assert (more.limits.steps, more.limits.calls) == (5, 1)
    assert {less.agent_version, more.agent_version} == {plain.agent_version}
    async with world.worker():
        assert (await user.ended(less.id)).error_code == "limit_steps"
        assert (await user.ended(more.id)).state == S.TASK_STATE_SUCCEEDED


async def _is(holds: bool) -> bool:
    return holds


async def _sql(world, statement: str) -> None:
    async with await AsyncConnection.connect(world.database.admin_dsn, autocommit=True) as admin:
        await admin.execute(statement.encode())
