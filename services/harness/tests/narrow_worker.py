"""A worker that notes who opens files and sockets or starts processes: `python narrow_worker.py REPORT`.

Of each such event the report counts the nearest code of ours on the stack. An agent's own code path is
`operations` and `domain`: it must not be among them, for it reaches the world through ports alone.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from memoryos_core.process import run_process
from memoryos_harness.app import WORKER_SECTIONS, work

WATCHED = frozenset(
    {
        "open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "os.link",
        "os.symlink", "os.exec", "os.fork", "os.posix_spawn", "os.system", "os.putenv", "os.unsetenv", "os.kill",
        "subprocess.Popen", "socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
        "ctypes.dlopen", "shutil.copyfile", "tempfile.mkstemp", "urllib.Request",
    }
)  # fmt: skip
SEEN: Counter[str] = Counter()


def nearest() -> str:
    """Give the module of ours that is nearest on the stack; "" for an import, and where none of ours is."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("importlib"):
            return ""  # code that is loaded late is no file that an agent asks for
        if module.startswith("memoryos_"):
            return module
        frame = frame.f_back
    return ""


def note(event: str, _: tuple[Any, ...]) -> None:
    """Count who does it."""
    if event in WATCHED and (module := nearest()):
        SEEN[f"{module} {event}"] += 1


if __name__ == "__main__":
    sys.addaudithook(note)
    try:
        asyncio.run(run_process(os.environ, WORKER_SECTIONS, work))
    finally:
        # What would be noted of an operation that opens a file by itself: the hook is no use if it does not see this.
        exec("open('/dev/null').close()", {"__name__": "memoryos_harness.operations.made_up"})
        found = dict(SEEN)
        Path(sys.argv[1]).write_text(json.dumps(found))
