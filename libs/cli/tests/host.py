"""A process with a supervisor over three programs, for tests that kill it: host.py FOLDER."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from memoryos_cli.supervisor.leftovers import settle
from memoryos_cli.supervisor.lock import AlreadyRunning, FolderLock
from memoryos_cli.supervisor.supervisor import Supervisor
from programs import DEAF, RUN, Programs  # type: ignore[import-not-found]


async def main(folder: Path) -> None:
    lock = FolderLock(folder / "lock")
    try:
        lock.take()
    except AlreadyRunning as error:
        sys.exit(str(error))
    await settle(folder / "status.json", None)
    programs = Programs(folder)
    specs = [
        programs.spec("database", RUN),
        programs.spec("service", DEAF, needs=("database",), stop_signals=((signal.SIGTERM, 0.3),)),
    ]
    for spec in specs:
        (folder / f"{spec.name}.ready").unlink(missing_ok=True)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Supervisor(specs, status_file=folder / "status.json").run(stop)


asyncio.run(main(Path(sys.argv[1])))
