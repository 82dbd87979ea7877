"""Runs all tests but chaos and bench: one pytest process per part, two at a time, without a plugin.

A part's closing lines are printed at its end, all of its output when it failed;
the exit code is non-zero when any part failed. Arguments are handed on to each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("chaos", "bench")
"""Folders under tests/ with targets of their own."""
LONGEST_FIRST = ("services/harness", "tests/integration", "services/tool-gateway", "services/memoryfs", "libs")
"""Started first, so that no long part is left alone at the end; the others follow by name."""
COMMON = ("-q", "-m", "not chaos", "--durations=3", "--color=no")
CLOSING_LINES = 8
NO_TESTS = 5
"""Exit code of pytest when a part has none."""


def parts() -> list[str]:
    """Give what one process runs each: all libraries, each service, each folder of tests/."""
    found = ["libs"]
    found += [f"services/{folder.name}" for folder in sorted((ROOT / "services").iterdir()) if folder.is_dir()]
    folders = (folder for folder in sorted((ROOT / "tests").iterdir()) if folder.is_dir())
    found += [f"tests/{folder.name}" for folder in folders if folder.name not in (*LEFT_OUT, "__pycache__")]
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    return sorted(found, key=lambda name: (rank.get(name, len(rank)), name))


def work(todo: SimpleQueue[str], failed: list[str], printing: threading.Lock) -> None:
    """Run parts until none is left."""
    while True:
        try:
            name = todo.get_nowait()
        except Empty:
            return
        start = time.monotonic()
        with tempfile.TemporaryFile("w+") as output:
            cache = f"cache_dir=.pytest_cache/{name.replace('/', '-')}"
            command = [sys.executable, "-m", "pytest", *COMMON, "-o", cache, name, *sys.argv[1:]]
            code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
            output.seek(0)
            lines = output.read().splitlines()
        passed = code in (0, NO_TESTS)
        if not passed:
            failed.append(name)
        with printing:
            print(f"== {name}: {'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s ==")
            print("\n".join(lines[-CLOSING_LINES:] if passed else lines), flush=True)


def main() -> int:
    """Run all parts and give the exit code."""
    todo: SimpleQueue[str] = SimpleQueue()
    for name in parts():
        todo.put(name)
    failed: list[str] = []
    printing = threading.Lock()
    workers = [
        threading.Thread(target=work, args=(todo, failed, printing)) for _ in range(max(2, (os.cpu_count() or 2)))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"tests: {'FAILED in ' + ', '.join(sorted(failed)) if failed else 'all passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
