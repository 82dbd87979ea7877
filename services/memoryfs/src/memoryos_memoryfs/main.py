"""`python -m memoryos_memoryfs.main`: MemoryFS as a process."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from memoryos_core import crashpoints
from memoryos_core.config import load
from memoryos_core.sections import ALL_SECTIONS

from memoryos_memoryfs.app import SECTIONS, serve


async def _run() -> None:
    file = os.environ.get("MEMORYOS_CONFIG")
    crashpoints.arm(os.environ.get("MEMORYOS_CRASH_POINT", ""))
    config = load(SECTIONS, file=Path(file) if file else None, environ=os.environ, known=ALL_SECTIONS)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await serve(config, stop)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    asyncio.run(_run())


if __name__ == "__main__":
    main()
