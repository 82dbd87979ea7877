"""`python -m memoryos_harness.worker`: runs tasks. Any number of them, on any number of machines."""

from __future__ import annotations

import asyncio
import os

from memoryos_core.process import run_process

from memoryos_harness.app import WORKER_SECTIONS, work


def main() -> None:
    """Work until SIGTERM or SIGINT."""
    asyncio.run(run_process(os.environ, WORKER_SECTIONS, work))


if __name__ == "__main__":
    main()
