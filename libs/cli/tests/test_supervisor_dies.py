"""What happens when the supervisor itself is stopped, killed or started twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from memoryos_cli.supervisor.files import read_json, write_json
from memoryos_cli.supervisor.leftovers import settle
from memoryos_cli.supervisor.lock import is_held
from memoryos_cli.supervisor.ports import choose_ports
from memoryos_cli.supervisor.processes import is_same, start_ticks

from .conftest import WAIT_S, eventually

HOST = Path(__file__).with_name("host.py")


class Host:
    """A supervisor in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(HOST), str(folder)], stderr=subprocess.PIPE, start_new_session=True
        )

    def status(self) -> dict[str, Any]:
        return read_json(self.folder / "status.json") or {}

    def children(self) -> list[tuple[int, int | None]]:
        return [(c["pid"], c["ticks"]) for c in self.status().get("children", [])]

    async def started(self) -> list[tuple[int, int | None]]:
        """Wait until this very process reports that all run; give its children."""
        await eventually(lambda: self.status().get("phase") == "running" and self.status()["pid"] == self.process.pid)
        return self.children()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing for a long time."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    made: list[Host] = []
    yield made
    for host in made:
        host.process.kill()
        host.process.communicate()


async def test_kill_9_of_the_supervisor_leaves_no_orphan_and_it_starts_again(tmp_path: Path, hosts: list[Host]) -> None:
    for _ in range(2):
        hosts.append(Host(tmp_path))
        children = await hosts[-1].started()
        assert len(children) == 2
        assert all(is_same(*child) for child in children)
        os.kill(hosts[-1].process.pid, signal.SIGKILL)
        hosts[-1].process.wait()
        await eventually(lambda children=children: not any(is_same(*child) for child in children), timeout_s=5)
        assert not is_held(tmp_path / "lock")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_ends_all(tmp_path: Path, hosts: list[Host], number: signal.Signals) -> None:
    hosts.append(Host(tmp_path))
    children = await hosts[0].started()
    hosts[0].process.send_signal(number)
    assert hosts[0].process.wait(WAIT_S) == 0
    assert not any(is_same(*child) for child in children)
    assert hosts[0].status()["phase"] == "stopped"
    assert {c["state"] for c in hosts[0].status()["children"]} == {"stopped"}


async def test_a_second_instance_is_refused_and_harms_nobody(tmp_path: Path, hosts: list[Host]) -> None:
    hosts.append(Host(tmp_path))
    children = await hosts[0].started()
    second = Host(tmp_path)
    hosts.append(second)
    _out, error = second.process.communicate(timeout=WAIT_S)
    assert second.process.returncode == 1
    assert b"Another `mos up` works on this data folder" in error
    assert all(is_same(*child) for child in children)
    assert is_held(tmp_path / "lock")


async def test_a_stale_status_file_gets_no_stranger_killed(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    ticks = start_ticks(sleeper.pid)
    assert ticks is not None
    dead = {"name": "service", "pid": 2**22 + 1, "ticks": 5}
    reused = {"name": "service", "pid": sleeper.pid, "ticks": ticks - 1}
    for status in ({"children": [reused, dead]}, {"children": "x"}, ["x"], {"children": [{"pid": "1"}]}):
        write_json(tmp_path / "status.json", status)
        await settle(tmp_path / "status.json", None)
    (tmp_path / "status.json").write_bytes(b"\xff{")
    await settle(tmp_path / "status.json", None)
    assert sleeper.poll() is None


async def test_a_child_that_outlived_its_supervisor_is_ended_before_the_next_start(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    write_json(
        tmp_path / "status.json",
        {"children": [{"name": "service", "pid": sleeper.pid, "ticks": start_ticks(sleeper.pid)}]},
    )
    await settle(tmp_path / "status.json", None, wait_s=0.2)
    assert sleeper.wait(WAIT_S) == -signal.SIGKILL


def test_ports_are_kept_unless_taken(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = choose_ports(file, ["memoryfs", "policy"])
    assert len(set(first.values())) == 2
    assert choose_ports(file, ["memoryfs", "policy"]) == first
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first["memoryfs"]))
        taken.listen()
        second = choose_ports(file, ["memoryfs", "policy", "harness"])
    assert second["memoryfs"] != first["memoryfs"]
    assert second["policy"] == first["policy"]
    file.write_text('{"memoryfs": 70000, "policy": "x", "harness": 22.5}')
    assert len(set(choose_ports(file, ["memoryfs", "policy", "harness"]).values())) == 3
