"""`python -m memoryos_toolgateway.main`: the tool gateway as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from memoryos_core import crashpoints
from memoryos_core.config import load
from memoryos_core.sections import ALL_SECTIONS

from memoryos_toolgateway.app import SECTIONS, serve
from memoryos_toolgateway.errors import SkillFileInvalid


async def _run() -> None:
    file = os.environ.get("MEMORYOS_CONFIG")
    crashpoints.arm(os.environ.get("MEMORYOS_CRASH_POINT", ""))
    config = load(SECTIONS, file=Path(file) if file else None, environ=os.environ, known=ALL_SECTIONS)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await serve(config, stop)


def main() -> None:
    """Serve until SIGTERM or SIGINT; a skill file that cannot be registered ends it with one sentence."""
    try:
        asyncio.run(_run())
    except SkillFileInvalid as error:
        sys.exit(f"tool-gateway: {error}")


if __name__ == "__main__":
    main()
