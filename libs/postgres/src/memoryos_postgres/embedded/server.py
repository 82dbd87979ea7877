"""A server as a context manager, and waiting for one to answer."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psycopg

from memoryos_postgres.embedded.files import ServerFiles, command, free_port, prepare, running_pids

_POLL_S = 0.02


class ServerNotReady(RuntimeError):
    """The server ended or did not answer within the time given; the message has the end of its log."""


async def wait_ready(dsn: str, timeout_s: float) -> None:
    """Return when `dsn` accepts connections; `ServerNotReady` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(dsn, connect_timeout=2)
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise ServerNotReady(f"no answer within {timeout_s} s") from error
            await asyncio.sleep(_POLL_S)
        else:
            await connection.close()
            return


class EmbeddedPostgres:
    """A running server on a free port of 127.0.0.1; it ends with the `with` block or with this process.

    Start it in the main thread. `durable=False` turns fsync off (tests only);
    commits still survive a kill -9 of the server, but not of the machine.
    """

    def __init__(self, folder: Path, *, durable: bool = True, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = dict(settings or {})
        self._durable = durable
        if not durable:
            self._settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.files: ServerFiles | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the server, a direct child."""
        if self._process is None:
            raise ServerNotReady("not started")
        return self._process.pid

    def admin_dsn(self, database: str = "postgres") -> str:
        """DSN of the superuser."""
        if self.files is None:
            raise ServerNotReady("not started")
        return self.files.admin_dsn(self.port, database)

    def start(self, timeout_s: float = 60) -> None:
        """Start (again) on the same folder, and the same port when there was one; waits until it answers."""
        deadline = time.monotonic() + timeout_s
        self.files = prepare(self._folder / "data", self._folder / "postgres.password", durable=self._durable)
        while running_pids(self.files.data_dir):  # backends of a killed server end by themselves
            if time.monotonic() > deadline:
                raise ServerNotReady(f"another server works in {self.files.data_dir}")
            time.sleep(_POLL_S)
        self.port = self.port or free_port()
        self._log = (self._folder / "postgres.log").open("ab")
        argv = command(self.files, self.port, settings=self._settings)
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)  # noqa: S603
        while True:
            try:
                psycopg.connect(self.admin_dsn(), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise ServerNotReady(self._log_tail()) from error
                time.sleep(_POLL_S)
            else:
                return

    def stop(self, timeout_s: float = 30) -> None:
        """Fast shutdown: open transactions are rolled back, all else is kept. SIGKILL after `timeout_s`."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._ended()

    def kill(self) -> None:
        """kill -9, as the tests of durability need it; `start()` afterwards recovers."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._ended()

    def _ended(self) -> None:
        self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _log_tail(self) -> str:
        return (self._folder / "postgres.log").read_text(errors="replace")[-4000:]
