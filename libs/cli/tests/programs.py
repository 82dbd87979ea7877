"""Small real programs to supervise."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from memoryos_cli.supervisor.child import ChildSpec

RUN = "ready.touch()\nwhile True: time.sleep(60)"
"""Serves until it is killed or asked."""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + RUN
"""Ignores SIGTERM."""


class Programs:
    """Makes specs of small Python programs that show by files what they do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def spec(self, name: str, code: str, **more: object) -> ChildSpec:
        """Give a program that runs `code` and is ready once it has touched NAME.ready (variable `ready`)."""
        ready = self.folder / f"{name}.ready"
        head = f"import os, pathlib, signal, sys, time; ready = pathlib.Path({str(ready)!r})\n"
        argv = [sys.executable, "-I", "-S", "-c", head + code]

        async def probe() -> bool:
            return await asyncio.to_thread(ready.exists)

        values: dict[str, object] = {
            "name": name,
            "argv": lambda: argv,
            "probe": probe,
            "log_file": self.folder / f"{name}.log",
        }
        return ChildSpec(**{**values, **more})  # type: ignore[arg-type]

    def text(self, name: str) -> str:
        """Give the log of a program."""
        file = self.folder / f"{name}.log"
        return file.read_text() if file.exists() else ""
