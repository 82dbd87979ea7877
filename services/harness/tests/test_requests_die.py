"""The server, or its database, goes away while somebody asks for something: asked again, it is done once."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import grpc
import pytest
from memoryos.harness.v1 import sessions_pb2, tasks_pb2

from .line import line_before
from .world import Client, eventually, make_world, serving, write_agents

pytestmark = pytest.mark.chaos
S = tasks_pb2.TaskState
POINTS = ("harness.request.before_commit", "harness.request.after_commit")


@pytest.fixture
async def made(tmp_path, database):
    """A world without a server."""
    async with make_world(tmp_path, database) as world:
        write_agents(world.folder / "agents")
        yield world


@asynccontextmanager
async def server(world, crash_point: str = ""):
    """The harness server as a process of its own."""
    world.port_file.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "memoryos_harness.main",
        env={"PATH": os.defpath, "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
             "MEMORYOS_CONFIG": str(world.config_file), "MEMORYOS_CRASH_POINT": crash_point},
        stdout=(world.folder / "server.log").open("ab"), stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        await eventually(lambda: _is(world.port_file.exists()))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def submission(user: Client, request_id: str) -> tasks_pb2.SubmitTaskRequest:
    return tasks_pb2.SubmitTaskRequest(
        agent="helper", session_id=user.session_id, input="use:mes__takt A", request_id=request_id
    )


@pytest.mark.parametrize("point", POINTS)
async def test_a_submission_whose_answer_was_lost_is_one_task(made, point) -> None:
    async with server(made) as first:
        user = made.client()
        await user.start_session()
        first.kill()
    async with server(made, point) as second:
        user = made.client()
        user.session_id = (await _sessions(user))[0]
        with pytest.raises(grpc.aio.AioRpcError):
            await user.tasks.SubmitTask(submission(user, "once"), metadata=user.metadata)
        await made.died(second)
    async with server(made), made.worker():
        again = made.client()
        again.session_id = user.session_id
        answers = [await again.tasks.SubmitTask(submission(again, "once"), metadata=again.metadata) for _ in range(2)]
        assert len({answer.task.id for answer in answers}) == 1
        ended = await again.ended(answers[0].task.id)
        assert ended.state == S.TASK_STATE_SUCCEEDED
        said = await again.messages()
        assert (said[0].content, len(said)) == ("use:mes__takt A", 2)
        listed = await again.tasks.ListTasks(tasks_pb2.ListTasksRequest(), metadata=again.metadata)
        assert len(listed.tasks) == 1
    assert made.tools.effects == {"mes.takt": 1}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("verb", ["Pause", "Resume", "Cancel"])
async def test_what_a_person_asked_for_is_done_once_also_when_the_answer_was_lost(made, point, verb) -> None:
    async with server(made):
        user = made.client()
        task = await user.submit("use:mes__takt A")
        if verb == "Resume":
            await _ask(user, "Pause", task.id, "before")
    async with server(made, point) as second:
        with pytest.raises(grpc.aio.AioRpcError):
            await _ask(made.client(), verb, task.id, "once")
        await made.died(second)
    async with server(made):
        user = made.client()
        for _ in range(2):
            await _ask(user, verb, task.id, "once")
        states = [event.state for event in await _events(user, task.id)]
    wanted = {
        "Pause": [S.TASK_STATE_IDLE, S.TASK_STATE_PAUSED],
        "Resume": [S.TASK_STATE_IDLE, S.TASK_STATE_PAUSED, S.TASK_STATE_RETRY],
        "Cancel": [S.TASK_STATE_IDLE, S.TASK_STATE_CANCELLING, S.TASK_STATE_CANCELLED],
    }
    assert states == wanted[verb]


async def test_of_submissions_while_the_database_is_cut_off_each_is_kept_once_or_refused(made) -> None:
    async with line_before(made) as line, serving(made):
        user = made.client()
        await user.start_session()

        async def submit(number: int) -> str | None:
            try:
                answer = await user.tasks.SubmitTask(submission(user, f"s{number}"), metadata=user.metadata)
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
                return None
            return answer.task.id

        async def later(number: int) -> str | None:
            await asyncio.sleep(0.02 * number)
            return await submit(number)

        asking = [asyncio.ensure_future(later(number)) for number in range(40)]
        await eventually(lambda: _is(any(one.done() for one in asking)))
        await line.cut()
        await asyncio.sleep(1)  # the fault itself lasts so long
        assert not all(one.done() for one in asking)
        line.mend()
        kept = await asyncio.gather(*asking)
        for number in [number for number, task in enumerate(kept) if task is None]:
            kept[number] = await eventually(lambda number=number: submit(number))
        again = [(await user.tasks.SubmitTask(submission(user, f"s{n}"), metadata=user.metadata)).task.id
                 for n in range(40)]  # fmt: skip
        assert again == kept
        assert len(set(kept)) == 40
        async with made.worker():
            for task in kept:
                assert (await user.ended(task, 60)).state == S.TASK_STATE_SUCCEEDED
    assert made.tools.effects == {"mes.takt": 40}


async def _sessions(user: Client) -> list[str]:
    answer = await user.sessions.ListSessions(sessions_pb2.ListSessionsRequest(), metadata=user.metadata)
    return [session.id for session in answer.sessions]


async def _ask(user: Client, verb: str, task_id: str, request_id: str) -> None:
    request = getattr(tasks_pb2, f"{verb}TaskRequest")(id=task_id, request_id=request_id)
    await getattr(user.tasks, f"{verb}Task")(request, metadata=user.metadata)


async def _events(user: Client, task_id: str) -> list[tasks_pb2.WatchTaskResponse]:
    """What a watcher is told within a second; the task may not have ended."""
    call = user.tasks.WatchTask(tasks_pb2.WatchTaskRequest(id=task_id), metadata=user.metadata, timeout=1.5)
    seen = []
    try:
        async for event in call:
            seen.append(event)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
    return seen


async def _is(holds: bool) -> bool:
    return holds
