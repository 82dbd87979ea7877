"""`python -m memoryos_harness.main`: sessions and tasks as a process. The worker is memoryos_harness.worker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from memoryos_core import crashpoints
from memoryos_core.config import Config, Section, load
from memoryos_core.sections import ALL_SECTIONS

from memoryos_harness.app import SECTIONS, serve


async def run_process(
    sections: Sequence[type[Section]], body: Callable[[Config, asyncio.Event], Awaitable[None]]
) -> None:
    """Read the configuration and run `body` until SIGTERM or SIGINT; a second signal changes nothing."""
    file = os.environ.get("MEMORYOS_CONFIG")
    crashpoints.arm(os.environ.get("MEMORYOS_CRASH_POINT", ""))
    config = load(sections, file=Path(file) if file else None, environ=os.environ, known=ALL_SECTIONS)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await body(config, stop)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    asyncio.run(run_process(SECTIONS, serve))


if __name__ == "__main__":
    main()
