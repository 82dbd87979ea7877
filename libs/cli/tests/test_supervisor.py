"""The supervisor over real programs: order, crashes, drain, refusal to end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from memoryos_cli.supervisor.backoff import Backoff
from memoryos_cli.supervisor.child import ChildSpec, ChildState
from memoryos_cli.supervisor.files import read_json
from memoryos_cli.supervisor.processes import start_ticks
from memoryos_cli.supervisor.supervisor import LOG_BYTES_MAX, StartFailed, Supervisor, rotate

from .conftest import eventually
from .programs import DEAF, RUN, Programs

DRAIN = "signal.signal(signal.SIGTERM, lambda *_: (print('drained', flush=True), sys.exit(0)))\n" + RUN


@asynccontextmanager
async def running(tmp_path: Path, *specs: ChildSpec, start_timeout_s: float = 20.0) -> AsyncIterator[Supervisor]:
    """A supervisor whose children are all ready; stopped at the end."""
    supervisor = Supervisor(
        specs, status_file=tmp_path / "status.json", start_timeout_s=start_timeout_s, first_pause_s=0.02
    )
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(supervisor.run(stop, ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if task.done():
            task.result()
        yield supervisor
    finally:
        stop.set()
        await asyncio.gather(task, return_exceptions=True)


async def test_children_start_in_the_order_of_their_needs(tmp_path: Path, programs: Programs) -> None:
    order: list[str] = []

    def noted(name: str) -> object:
        async def on_ready() -> None:
            order.append(name)

        return on_ready

    async with running(
        tmp_path,
        programs.spec("service", RUN, needs=("database", "policy"), on_ready=noted("service")),
        programs.spec("policy", RUN, needs=("database",), on_ready=noted("policy")),
        programs.spec("database", RUN, on_ready=noted("database")),
    ):
        assert order == ["database", "policy", "service"]
        status = read_json(tmp_path / "status.json")
        assert status["phase"] == "running"
        assert {c["name"]: c["state"] for c in status["children"]} == dict.fromkeys(order, "ready")


async def test_a_killed_child_comes_back_with_growing_pauses(tmp_path: Path, programs: Programs) -> None:
    async with running(tmp_path, programs.spec("service", RUN)) as supervisor:
        child = supervisor.children["service"]
        for round_number in (1, 2, 3):
            pid = child.pid
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda pid=pid: child.pid not in (0, pid) and child.state is ChildState.READY)
            assert (child.restarts, child.last_exit) == (round_number, "SIGKILL")
    assert read_json(tmp_path / "status.json")["children"][0]["state"] == "stopped"


def test_backoff_doubles_to_its_cap_and_forgets_after_a_stable_run() -> None:
    backoff = Backoff(first_s=0.5, max_s=4, stable_s=10)
    assert [backoff.after_run(0.1) for _ in range(5)] == [0.5, 1, 2, 4, 4]
    assert backoff.after_run(11) == 0.5


async def test_stop_drains_users_before_what_they_need(tmp_path: Path, programs: Programs) -> None:
    line = "signal.signal(signal.SIGTERM, lambda *_: (print(time.monotonic_ns(), flush=True), sys.exit(0)))\n"
    async with running(
        tmp_path, programs.spec("database", line + RUN), programs.spec("service", line + RUN, needs=("database",))
    ):
        pass
    assert int(programs.text("service")) < int(programs.text("database"))


async def test_a_child_that_ignores_sigterm_is_killed_with_its_group(tmp_path: Path, programs: Programs) -> None:
    forked = (
        "pid = os.fork()\nif pid == 0:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(600)\n"
        "print(pid, flush=True)\n"
    )
    spec = programs.spec("deaf", forked + DEAF, stop_signals=((signal.SIGTERM, 0.3),))
    async with running(tmp_path, spec) as supervisor:
        pids = [supervisor.children["deaf"].pid, int(programs.text("deaf"))]
        assert all(start_ticks(pid) for pid in pids)
    await eventually(lambda: not any(start_ticks(pid) for pid in pids))


async def test_repeated_stops_change_nothing(tmp_path: Path, programs: Programs) -> None:
    async with running(tmp_path, programs.spec("service", DRAIN)) as supervisor:
        child = supervisor.children["service"]
        for _ in range(3):
            child.stop()
        await eventually(lambda: child.state is ChildState.STOPPED)
    assert programs.text("service").count("drained") == 1


async def test_a_child_that_never_lives_fails_the_start_with_its_log(tmp_path: Path, programs: Programs) -> None:
    other = programs.spec("database", RUN)
    broken = programs.spec("service", "sys.exit('the port is taken')", needs=("database",))
    with pytest.raises(StartFailed, match=r"(?s)service ended \d+ times \(exit 1\).*the port is taken"):
        async with running(tmp_path, other, broken):
            pass
    assert [c["state"] for c in read_json(tmp_path / "status.json")["children"]] == ["stopped", "stopped"]


async def test_a_child_that_never_serves_fails_the_start_in_time(tmp_path: Path, programs: Programs) -> None:
    silent = programs.spec("silent", "print('loading', flush=True); time.sleep(600)")
    with pytest.raises(StartFailed, match=r"(?s)not ready after 1 s: silent.*loading"):
        async with running(tmp_path, silent, start_timeout_s=1):
            pass


async def test_a_failed_first_task_is_told_and_stops_all(tmp_path: Path, programs: Programs) -> None:
    async def on_ready() -> None:
        raise RuntimeError("migration 0007 was changed")

    with pytest.raises(StartFailed, match=r"database: migration 0007 was changed"):
        async with running(tmp_path, programs.spec("database", RUN, on_ready=on_ready)):
            pass


async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, programs: Programs) -> None:
    def argv() -> list[str]:
        raise RuntimeError("OPA is missing: run make setup")

    with pytest.raises(StartFailed, match=r"service ended \d+ times \(not started: OPA is missing"):
        async with running(tmp_path, programs.spec("service", "", argv=argv)):
            pass


async def test_stop_while_a_child_backs_off_does_not_wait(tmp_path: Path, programs: Programs) -> None:
    async with running(tmp_path, programs.spec("service", RUN)) as supervisor:
        child = supervisor.children["service"]
        child._backoff.first_s = 600
        os.kill(child.pid, signal.SIGKILL)
        await eventually(lambda: child.state is ChildState.BACKOFF)
    assert child.state is ChildState.STOPPED


async def test_a_status_file_that_cannot_be_written_stops_nobody(tmp_path: Path, programs: Programs) -> None:
    folder = tmp_path / "run"
    supervisor = Supervisor([programs.spec("service", RUN)], status_file=folder / "status.json", first_pause_s=0.02)
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(supervisor.run(stop, ready))
    await asyncio.wait_for(ready.wait(), 20)
    child = supervisor.children["service"]
    os.kill(child.pid, signal.SIGKILL)
    await eventually(lambda: child.restarts == 1 and child.state is ChildState.READY)
    stop.set()
    await task
    assert child.state is ChildState.STOPPED


async def test_a_fault_of_the_supervision_itself_ends_all_children(tmp_path: Path, programs: Programs) -> None:
    class Broken(Backoff):
        def after_run(self, ran_s: float) -> float:
            raise RuntimeError("a bug")

    supervisor = Supervisor(
        [programs.spec("service", RUN), programs.spec("other", RUN)], status_file=tmp_path / "status.json"
    )
    ready = asyncio.Event()
    task = asyncio.create_task(supervisor.run(asyncio.Event(), ready))
    await asyncio.wait_for(ready.wait(), 20)
    children = supervisor.children
    children["service"]._backoff = Broken()
    pid = children["other"].pid
    os.kill(children["service"].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(task, 20)
    assert start_ticks(pid) is None


def test_a_child_needs_a_child_that_exists(tmp_path: Path, programs: Programs) -> None:
    with pytest.raises(ValueError, match="no child"):
        Supervisor([programs.spec("service", RUN, needs=("databse",))], status_file=tmp_path / "status.json")


def test_an_overgrown_log_moves_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    with log.open("ab") as writer:
        writer.write(b"x" * (LOG_BYTES_MAX + 1))
        writer.flush()
        rotate(log)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "service.log.1").stat().st_size == LOG_BYTES_MAX + 1
