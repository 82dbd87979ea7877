"""`python -m memoryos_toolgateway.main`: the tool gateway as a process."""

from __future__ import annotations

import asyncio
import os
import sys

from memoryos_core.process import run_process

from memoryos_toolgateway.app import SECTIONS, serve
from memoryos_toolgateway.errors import SkillFileInvalid


def main() -> None:
    """Serve until SIGTERM or SIGINT; a skill file that cannot be registered ends it with one sentence."""
    try:
        asyncio.run(run_process(os.environ, SECTIONS, serve))
    except SkillFileInvalid as error:
        sys.exit(f"tool-gateway: {error}")


if __name__ == "__main__":
    main()
