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
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("chaos", "bench", "cases")
"""Folders under tests/ with targets of their own; rules under cases run with `make check` and `make eval-policy`."""
LONGEST_FIRST = ("services/memoryfs", "services/harness", "tests/integration", "libs")
"""Started first, so that no long part is left alone at the end; the others follow by name."""
HALVED = ("services/memoryfs",)
"""Parts of which two processes run one half of the files each."""
COMMON = ("-q", "-m", "not chaos", "--durations=3", "--color=no")
CLOSING_LINES = 8
NO_TESTS = 5
"""Exit code of pytest when a part has none."""


@dataclass(frozen=True)
class Part:
    """What one process runs."""

    name: str
    arguments: tuple[str, ...]


def parts() -> list[Part]:
    """Give what one process runs each: all libraries, each service, each folder of tests/."""
    found = ["libs"]
    found += [f"services/{folder.name}" for folder in sorted((ROOT / "services").iterdir()) if folder.is_dir()]
    folders = (folder for folder in sorted((ROOT / "tests").iterdir()) if folder.is_dir())
    found += [f"tests/{folder.name}" for folder in folders if folder.name not in (*LEFT_OUT, "__pycache__")]
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    ordered = sorted(found, key=lambda name: (rank.get(name, len(rank)), name))
    return [part for name in ordered for part in (halves(name) if name in HALVED else [Part(name, (name,))])]


def halves(name: str) -> list[Part]:
    """Give every second test file of a package to one process each."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / name).rglob("test_*.py"))
    return [Part(f"{name} ({half + 1} of 2)", tuple(files[half::2])) for half in range(2)]


def work(todo: SimpleQueue[Part], failed: list[str], printing: threading.Lock) -> None:
    """Run parts until none is left."""
    while True:
        try:
            part = todo.get_nowait()
        except Empty:
            return
        name, start = part.name, time.monotonic()
        with tempfile.TemporaryFile("w+") as output:
            cache = f"cache_dir=.pytest_cache/{''.join(c if c.isalnum() else '-' for c in name)}"
            command = [sys.executable, "-m", "pytest", *COMMON, "-o", cache, *part.arguments, *sys.argv[1:]]
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
    todo: SimpleQueue[Part] = SimpleQueue()
    for part in parts():
        todo.put(part)
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
