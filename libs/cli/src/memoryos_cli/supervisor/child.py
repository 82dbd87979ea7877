"""One supervised program: started, waited for, started again with back-off, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from memoryos_cli.supervisor.backoff import Backoff
from memoryos_cli.supervisor.processes import kill_group, start_ticks

LAUNCHER: Final = Path(__file__).with_name("launch.py")
PROBE_PAUSE_S: Final = 0.1

Probe = Callable[[], Awaitable[bool]]
"""Tells whether the program serves; called again and again while it starts, must not raise."""


class ChildState(StrEnum):
    """Where a child stands."""

    WAITING = "waiting"
    """For what it needs."""
    STARTING = "starting"
    READY = "ready"
    BACKOFF = "back-off"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """What is run and how. `argv` is asked for at every start, and may block a little."""

    name: str
    argv: Callable[[], Sequence[str]]
    probe: Probe
    log_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    address: str = ""
    stop_signals: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 15.0),)
    """Signals to ask the program with and seconds to wait after each; then SIGKILL to its whole group."""
    settle_s: float = 0.0
    """How long it must go on living after the probe was true before it counts as ready."""
    launched: bool = False
    """`argv` has a launcher of its own that binds it to our life."""
    on_ready: Callable[[], Awaitable[None]] | None = None
    """Awaited once, after the first readiness and before anything that needs this child starts."""


class Child:
    """Keeps the program of `spec` running until `stop`. All methods belong to one event loop."""

    def __init__(self, spec: ChildSpec, *, changed: Callable[[], None], backoff: Backoff | None = None) -> None:
        self.spec = spec
        self.state = ChildState.WAITING
        self.pid = 0
        self.ticks: int | None = None
        self.restarts = 0
        self.ends = 0
        self.last_exit = ""
        self.since = datetime.now(UTC)
        self.failure: Exception | None = None
        """Why `on_ready` failed; the child is not started again then."""
        self.was_ready = asyncio.Event()
        self._changed = changed
        self._backoff = backoff or Backoff()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run the program, again after every end of its own, until `stop` is asked for."""
        while not self._stop.is_set():
            started = time.monotonic()
            ended = await self._run_once()
            self.pid, self.ticks = 0, None
            self.last_exit = ended
            if self._stop.is_set():
                break
            self.ends += 1
            pause_s = self._backoff.after_run(time.monotonic() - started)
            self._become(ChildState.BACKOFF)
            await self._stopped_within(pause_s)
            self.restarts += 1
        self._become(ChildState.STOPPED)

    def stop(self) -> None:
        """Let `run` end the program in order and return; the first call counts, repeats change nothing."""
        self._stop.set()

    def as_json(self) -> dict[str, Any]:
        """Give what `mos status` shows."""
        return {
            "name": self.spec.name,
            "state": str(self.state),
            "pid": self.pid,
            "ticks": self.ticks,
            "restarts": self.restarts,
            "last_exit": self.last_exit,
            "since": self.since.isoformat(timespec="seconds"),
            "address": self.spec.address,
        }

    async def _run_once(self) -> str:
        """Start the program and give how it ended, by itself or by us."""
        self._become(ChildState.STARTING)
        try:
            process = await self._start()
        except Exception as error:
            return f"not started: {error}"
        readiness = asyncio.create_task(self._wait_ready())
        stopping = asyncio.create_task(self._stop.wait())
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({stopping, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._become(ChildState.STOPPING)
                await self._end(process, ended)
            return exit_text(await ended)
        finally:
            readiness.cancel()
            stopping.cancel()
            # Left-overs in its group must neither outlive us nor hold its port.
            kill_group(process.pid, signal.SIGKILL)

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """Ask the program to end, wait, and kill it if it does not."""
        for number, wait_s in self.spec.stop_signals:
            with suppress(ProcessLookupError):
                process.send_signal(number)
            if (await asyncio.wait({ended}, timeout=wait_s))[0]:
                return
        kill_group(process.pid, signal.SIGKILL)

    async def _start(self) -> asyncio.subprocess.Process:
        argv = list(await asyncio.to_thread(self.spec.argv))
        if not self.spec.launched:
            argv = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), "--", *argv]
        # The kernel binds the child to the life of the *thread* that forks: this one, the main thread.
        with self.spec.log_file.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.spec.environment),
                start_new_session=True,
            )
        self.pid, self.ticks = process.pid, start_ticks(process.pid)
        self._changed()
        return process

    async def _wait_ready(self) -> None:
        while True:
            if await self.spec.probe():
                break
            await asyncio.sleep(PROBE_PAUSE_S)
        await asyncio.sleep(self.spec.settle_s)  # this task is cancelled when the program ends meanwhile
        if not self.was_ready.is_set() and self.spec.on_ready is not None:
            try:
                await self.spec.on_ready()
            except Exception as error:
                self.failure = error
                self._stop.set()
                return
        self.was_ready.set()
        self._become(ChildState.READY)

    async def _stopped_within(self, pause_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), pause_s)

    def _become(self, state: ChildState) -> None:
        if state is not self.state:
            self.state = state
            self.since = datetime.now(UTC)
            self._changed()


def exit_text(code: int) -> str:
    """Give an exit code as people read it: "exit 1", "SIGKILL"."""
    if code >= 0:
        return f"exit {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
