"""Rows of the durability faults that no other test shows: see docs/reference/durability.md for the whole table."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from memoryos.harness.v1 import tasks_pb2
from memoryos_models.scripted import ScriptedReply
from memoryos_postgres import PostgresSection, roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.embedded import EmbeddedPostgres
from memoryos_postgres.migrate import installed_folders, migrate
from memoryos_testing.postgres import Clone

from .world import World, eventually, make_world, serving, takt_script

pytestmark = pytest.mark.integration
S = tasks_pb2.TaskState


class Line:
    """A line to the database that can be cut and mended: what goes through it meanwhile is lost."""

    def __init__(self, port: int) -> None:
        self._to, self._open = port, True
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def cut(self) -> None:
        """Break every connection and take no new one."""
        self._open = False
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """Take connections again."""
        self._open = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection through."""
        if not self._open:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, far_writer}
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer), return_exceptions=True)
        self._writers -= {writer, far_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def line_before(world: World) -> AsyncIterator[Line]:
    """Put a line between the database and the workers that are started from now on."""
    config = yaml.safe_load(world.config_file.read_text())
    line = Line(int(config["postgres"]["port"]))
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    world.config_file.write_text(yaml.safe_dump({**config, "postgres": {**config["postgres"], "port": line.port}}))
    try:
        yield line
    finally:
        line.mend()
        server.close()


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own that is soon full."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small file system here: a full disk cannot be made")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_a_full_disk_stops_tasks_and_with_room_they_end_once(small_disk, tmp_path) -> None:
    with EmbeddedPostgres(small_disk) as server:
        await bootstrap(server.admin_dsn(), "memoryos", tmp_path / "secrets")
        section = PostgresSection(port=server.port, database="memoryos", secrets_dir=tmp_path / "secrets")
        await migrate(section.dsn(roles.OWNER), installed_folders(["core", "harness"]))
        database = Clone(section, server.admin_dsn("memoryos"))
        async with make_world(tmp_path, database) as world, serving(world):
            user = world.client()
            world.tools.hold = asyncio.Event()
            await world.worker_process(retry_base_s=0.5, retry_max_s=5)
            tasks = [await user.submit(f"use:mes__takt L{n}") for n in range(4)]
            await eventually(lambda: _is(world.tools.effects["mes.takt"] >= 2))
            ballast = small_disk / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb") as file:
                while file.write(b"0" * 65_536):
                    file.flush()
            world.tools.hold.set()
            await asyncio.sleep(3)  # steps end, and cannot be written down
            ballast.unlink()
            ended = [await user.ended(task.id, 60) for task in tasks]
            assert {task.state for task in ended} == {S.TASK_STATE_SUCCEEDED}
            assert world.tools.effects["mes.takt"] == len(tasks)


async def _is(holds: bool) -> bool:
    return holds
