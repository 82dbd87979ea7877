"""Processes by identity: a pid alone may belong to somebody else by now."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.02
_STAT_STATE: Final = 0
_STAT_START_TICKS: Final = 19
"""Fields of /proc/PID/stat counted after the command name (proc(5): 3 and 22)."""


def start_ticks(pid: int) -> int | None:
    """Give when a process was started, in clock ticks since boot; None when there is none, or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name may hold spaces and brackets
    return None if fields[_STAT_STATE] in "ZX" else int(fields[_STAT_START_TICKS])


def is_same(pid: int, ticks: int | None) -> bool:
    """Tell whether the process that had this pid and start lives."""
    return ticks is not None and pid > 0 and start_ticks(pid) == ticks


async def wait_gone(known: Iterable[tuple[int, int | None]], timeout_s: float) -> list[int]:
    """Wait until all these processes have ended; give the pids of those that still live after `timeout_s`."""
    left = list(known)
    deadline = time.monotonic() + timeout_s
    while True:
        left = [(pid, ticks) for pid, ticks in left if is_same(pid, ticks)]
        if not left or time.monotonic() >= deadline:
            return [pid for pid, _ in left]
        await asyncio.sleep(_POLL_S)


def kill_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that a child of ours leads; nothing happens when it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def kill_if_same(pid: int, ticks: int | None, number: signal.Signals) -> bool:
    """Send a signal to a process only if it is still the one meant."""
    if not is_same(pid, ticks):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
