"""`python -m memoryos_harness.worker`: runs tasks. Any number of them, on any number of machines."""

from __future__ import annotations

import asyncio

from memoryos_harness.app import WORKER_SECTIONS, work
from memoryos_harness.main import run_process


def main() -> None:
    """Work until SIGTERM or SIGINT."""
    asyncio.run(run_process(WORKER_SECTIONS, work))


if __name__ == "__main__":
    main()
