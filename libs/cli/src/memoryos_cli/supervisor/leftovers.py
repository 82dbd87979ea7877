"""What an earlier `mos up` that was killed may have left: processes on their way out, stale files."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any, Final

from memoryos_postgres.embedded import running_pids

from memoryos_cli.supervisor.files import read_json
from memoryos_cli.supervisor.processes import kill_if_same, wait_gone

CHILDREN_WAIT_S: Final = 5.0
SERVER_WAIT_S: Final = 60.0
"""A PostgreSQL that shuts down writes its buffers first; killing it would only make the next start slower."""


class LeftoverProcess(RuntimeError):
    """A process of an earlier run does not end; the message names it."""


async def settle(status_file: Path, postgres_dir: Path | None, *, wait_s: float = CHILDREN_WAIT_S) -> None:
    """Return when nothing of an earlier run lives: wait for what is ending, kill what does not end.

    Call it while holding the folder's lock. A status file of another boot or of
    pids that now belong to others names nobody, because start times are compared.
    """
    status = read_json(status_file)
    children = [(int(child["pid"]), child["ticks"]) for child in _children(status) if child["name"] != "postgres"]
    left = await wait_gone(children, wait_s)
    for pid, ticks in children:
        if pid in left:
            kill_if_same(pid, ticks, signal.SIGKILL)
    left = await wait_gone(children, wait_s)
    if left:
        raise LeftoverProcess(f"process {left[0]} of an earlier run does not end")
    if postgres_dir is not None:
        await _settle_postgres(postgres_dir)


async def _settle_postgres(folder: Path) -> None:
    deadline = time.monotonic() + SERVER_WAIT_S
    while pids := await asyncio.to_thread(running_pids, folder):
        if time.monotonic() > deadline:
            raise LeftoverProcess(f"PostgreSQL process {pids[0]} of an earlier run still works in {folder}")
        await asyncio.sleep(0.05)


def _children(status: Any) -> list[dict[str, Any]]:
    """Give the children of a status file that has the right shape, else none."""
    children = status.get("children") if isinstance(status, dict) else None
    if not isinstance(children, list):
        return []
    return [
        c for c in children if isinstance(c, dict) and isinstance(c.get("pid"), int) and "ticks" in c and "name" in c
    ]
