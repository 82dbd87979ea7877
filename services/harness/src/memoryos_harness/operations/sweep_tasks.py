"""Look for tasks that nobody looks at, and wake workers for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from memoryos_core.errors import MemoryOSError

from memoryos_harness.ports import DueTasks

_LOG: Final = logging.getLogger(__name__)
LATE_SWEEPS: Final = 10
"""Sweeps that may fail to come before somebody is told."""
WAKE_BATCH_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """How often, and how long a sent wake-up is trusted. All in seconds."""

    every_s: float
    quiet_s: float
    lost_worker_s: float


async def sweep_tasks(due: DueTasks, settings: SweepSettings) -> int:
    """Wake workers for tasks whose time has come and whose wake-up was lost; give how many.

    That covers leases that ran out, retries, reviews, and rows whose queue job
    died with its worker. Two sweepers at once wake each task once.
    """
    woken = await due.wake_due(limit=WAKE_BATCH_MAX, quiet_s=settings.quiet_s)
    await due.clear_lost_jobs(silent_s=settings.lost_worker_s)
    await due.note_sweep()
    return woken


async def watch_sweeps(due: DueTasks, settings: SweepSettings, tell: Callable[[bool], Awaitable[None]]) -> None:
    """Say again and again whether some worker sweeps, until cancelled; in doubt none does."""
    late_s, before = settings.quiet_s + LATE_SWEEPS * settings.every_s, True
    while True:
        try:
            swept = await due.since_sweep_s() < late_s
        except MemoryOSError:
            swept = False
        if swept is not before:
            _LOG.warning("workers sweep again" if swept else "no worker sweeps: tasks that are due may wait")
        before = swept
        await tell(swept)
        await asyncio.sleep(max(settings.every_s, 1.0))


async def sweep_until(due: DueTasks, settings: SweepSettings, stop: asyncio.Event) -> None:
    """Sweep again and again until `stop` is set; a store that does not answer is tried again."""
    while not stop.is_set():
        try:
            await sweep_tasks(due, settings)
        except MemoryOSError as error:
            _LOG.warning("sweep failed", extra={"reason": error.reason})
        try:
            await asyncio.wait_for(stop.wait(), settings.every_s)
        except TimeoutError:
            continue
