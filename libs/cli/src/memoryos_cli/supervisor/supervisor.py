"""Starts all children in the order of their needs, keeps them running, stops them in reverse."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from memoryos_cli.supervisor.backoff import Backoff
from memoryos_cli.supervisor.child import Child, ChildSpec
from memoryos_cli.supervisor.files import write_json
from memoryos_cli.supervisor.processes import start_ticks

START_TIMEOUT_S: Final = 120.0
STARTS_MAX: Final = 5
"""A child that ends so often before it was ever ready has a fault that waiting does not mend."""
LOG_BYTES_MAX: Final = 32 * 1024 * 1024
"""Size at which a log file becomes NAME.log.1; so a child keeps at most twice that."""
LOG_TAIL_BYTES: Final = 2000
CHECK_PAUSE_S: Final = 5.0


class StartFailed(RuntimeError):
    """A child did not become ready; the message names it and has the end of its log."""


class Supervisor:
    """Supervises children until `run`'s stop event; `status_file` always tells how they are."""

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        *,
        status_file: Path,
        start_timeout_s: float = START_TIMEOUT_S,
        first_pause_s: float = 0.2,
    ) -> None:
        self._status_file = status_file
        self._start_timeout_s = start_timeout_s
        self._phase = "starting"
        self._started = datetime.now(UTC)
        self._children = {
            spec.name: Child(spec, changed=self.write_status, backoff=Backoff(first_s=first_pause_s)) for spec in specs
        }
        self._tasks: dict[str, asyncio.Task[None]] = {}
        for spec in specs:
            if unknown := set(spec.needs) - set(self._children):
                raise ValueError(f"{spec.name} needs {unknown}, which is no child")

    @property
    def children(self) -> dict[str, Child]:
        """The children by name."""
        return dict(self._children)

    async def run(self, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
        """Keep everything running until `stop` is set; set `ready` once all serve.

        Raises StartFailed when a child does not become ready. In every case all
        children have ended when it returns.
        """
        starting = asyncio.create_task(self._start_all())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._phase = "running"
                self.write_status()
                if ready is not None:
                    ready.set()
                await self._watch(stopping)
        finally:
            for task in (starting, stopping):
                task.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            self._phase = "stopping"
            self.write_status()
            await asyncio.gather(*(self._stop_one(name) for name in self._children), return_exceptions=True)
            self._phase = "stopped"
            self.write_status()

    def write_status(self) -> None:
        """Put the present state into the status file; a full disk costs the picture, not the supervision."""
        with suppress(OSError):
            write_json(self._status_file, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Give the present state: phase, own process and every child."""
        pid = os.getpid()
        return {
            "phase": self._phase,
            "pid": pid,
            "ticks": start_ticks(pid),
            "start_time": self._started.isoformat(timespec="seconds"),
            "children": [child.as_json() for child in self._children.values()],
        }

    async def _start_all(self) -> None:
        try:
            async with asyncio.timeout(self._start_timeout_s), asyncio.TaskGroup() as group:
                for name in self._children:
                    group.create_task(self._start_one(name))
        except TimeoutError:
            late = [name for name, child in self._children.items() if not child.was_ready.is_set()]
            raise StartFailed(
                f"not ready after {self._start_timeout_s:g} s: {', '.join(late)}{self._tail(late[0])}"
            ) from None
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _start_one(self, name: str) -> None:
        child = self._children[name]
        for needed in child.spec.needs:
            await self._children[needed].was_ready.wait()
        rotate(child.spec.log_file)
        task = self._tasks[name] = asyncio.create_task(child.run(), name=name)
        ready = asyncio.create_task(child.was_ready.wait())
        try:
            while not ready.done():
                await asyncio.wait({ready, task}, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
                if child.failure is not None:
                    raise StartFailed(f"{name}: {child.failure}") from child.failure
                if task.done():
                    task.result()
                    return  # stopped before it was ready
                if child.ends >= STARTS_MAX and not ready.done():
                    raise StartFailed(f"{name} ended {child.ends} times ({child.last_exit}){self._tail(name)}")
        finally:
            ready.cancel()

    async def _watch(self, stopping: asyncio.Task[Any]) -> None:
        """Wait for the end; meanwhile keep the log files small. A child that nobody watches any more ends all."""
        watched = {stopping, *self._tasks.values()}
        while not stopping.done():
            ended, _ = await asyncio.wait(watched, timeout=CHECK_PAUSE_S, return_when=asyncio.FIRST_COMPLETED)
            for task in ended - {stopping}:
                task.result()
                watched.discard(task)
            for child in self._children.values():
                rotate(child.spec.log_file)

    async def _stop_one(self, name: str) -> None:
        """Stop a child after all that need it have ended."""
        task = self._tasks.get(name)
        if task is None:
            return
        users = [
            self._tasks[other]
            for other, child in self._children.items()
            if name in child.spec.needs and other in self._tasks
        ]
        if users:
            await asyncio.wait(users)
        self._children[name].stop()
        await task

    def _tail(self, name: str) -> str:
        """Give the end of a child's log as further lines of a message."""
        file = self._children[name].spec.log_file
        with suppress(OSError):
            text = file.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
            return f"\n--- end of {file} ---\n{text}"
        return ""


def rotate(file: Path) -> None:
    """Move the content of an overgrown log to NAME.1. Its writer appends, so it goes on at the start."""
    with suppress(OSError):
        if file.stat().st_size > LOG_BYTES_MAX:
            shutil.copyfile(file, file.with_name(file.name + ".1"))
            os.truncate(file, 0)
