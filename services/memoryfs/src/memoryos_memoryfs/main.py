"""`python -m memoryos_memoryfs.main`: MemoryFS as a process."""

from __future__ import annotations

import asyncio
import os

from memoryos_core.process import run_process

from memoryos_memoryfs.app import SECTIONS, serve


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    asyncio.run(run_process(os.environ, SECTIONS, serve))


if __name__ == "__main__":
    main()
