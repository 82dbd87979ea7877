"""One data folder and a `mos up` on it, which tests may kill: the next one starts it again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memoryos_cli.main import run
from memoryos_models.scripted import ScriptedServer
from memoryos_postgres.embedded import running_pids

MOS = [sys.executable, "-m", "memoryos_cli.main"]
ANSWER = "第三季度：九月三十日。"
"""What the scripted model says to everything."""
START_S = 120.0
WAIT_S = 60.0
CHILDREN = {
    "postgres",
    "opa",
    "policy",
    "memoryfs",
    "tool-gateway",
    "harness",
    "harness-worker",
    "audit-sealer",
    "memoryfs-upkeep",
}


def until(condition: Callable[[], Any], timeout_s: float = WAIT_S) -> Any:
    """Give the first true value of `condition`; fail after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.05)
    return value


class Deployment:
    """`mos up` as a child of the tests."""

    def __init__(self, data: Path, chat_url: str = "http://127.0.0.1:9/v1") -> None:
        self.data = data
        self.chat_url = chat_url
        self.process: subprocess.Popen[bytes] | None = None
        # Nothing of the machine's own settings may steer the tests.
        self.environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environ["MEMORYOS_DATA"] = str(data)

    def up(self) -> None:
        """Start it unless it runs, and wait until it serves."""
        if self.process is not None and self.process.poll() is None:
            return
        argv = [*MOS, "up", "--set", f"models.chat_url={self.chat_url}", "--set", "models.chat_model=scripted"]
        with (self.data.parent / "up.log").open("ab") as log:
            self.process = subprocess.Popen(argv, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: self._serves() or self.process is None or self.process.poll() is not None, START_S)
        assert self.process.poll() is None, (self.data.parent / "up.log").read_text()[-4000:]

    def _serves(self) -> bool:
        status = self.status()
        return self.process is not None and (status.get("pid"), status.get("phase")) == (self.process.pid, "running")

    def status(self) -> dict[str, Any]:
        """Give what the supervisor wrote last."""
        try:
            found: dict[str, Any] = json.loads((self.data / "run" / "status.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def child(self, name: str) -> dict[str, Any]:
        """Give one child as the supervisor sees it."""
        return next(c for c in self.status()["children"] if c["name"] == name)

    def pids(self) -> set[int]:
        """Give all processes of the deployment but the supervisor."""
        return {c["pid"] for c in self.status()["children"] if c["pid"]} | set(running_pids(self.data / "postgres"))

    def mos(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end, in this process: a fresh one takes a second to load what it needs."""
        out, err = io.StringIO(), io.StringIO()
        given, sys.stdin = sys.stdin, io.StringIO(stdin)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(arguments, self.environ)
        finally:
            sys.stdin = given
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def json(self, *arguments: str) -> Any:
        """Run a command that must succeed and give its JSON."""
        done = self.mos(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def stop(self) -> None:
        """Drain and end it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(WAIT_S)


@pytest.fixture(scope="session")
def shared_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("mos")
    with ScriptedServer(lambda request: ANSWER) as model:
        deployment = Deployment(folder / "data", model.base_url)
        yield deployment
        deployment.stop()


@pytest.fixture
def deployment(shared_deployment: Deployment) -> Deployment:
    """A deployment that serves."""
    shared_deployment.up()
    return shared_deployment
