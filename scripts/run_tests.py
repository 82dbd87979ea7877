"""Runs all tests but chaos and bench, in two pytest processes at once: two cores, no plugin.

Each group's closing lines are printed at its end; the exit code is non-zero
when any group failed. Arguments are handed on to both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
GROUPS = {
    "libraries": ["libs"],
    "services and whole paths": ["services", "tests"],
}
"""Balanced by time; whatever `testpaths` names must be in one of them."""
COMMON = ["-q", "-m", "not chaos", "--ignore=tests/chaos", "--ignore=tests/bench", "--durations=5"]
CLOSING_LINES = 25


def run(name: str, paths: list[str], results: dict[str, int], printing: threading.Lock) -> None:
    """Run one group and print how it ended, whole when it failed."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        command = [
            sys.executable,
            "-m",
            "pytest",
            *COMMON,
            f"-o=cache_dir=.pytest_cache/{paths[0]}",
            *paths,
            *sys.argv[1:],
        ]
        code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        output.seek(0)
        lines = output.read().splitlines()
    results[name] = code
    with printing:
        print(f"== {name}: {'passed' if code == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s ==")
        print("\n".join(lines if code else lines[-CLOSING_LINES:]), flush=True)


def main() -> int:
    """Run the groups and give the exit code."""
    results: dict[str, int] = {}
    printing = threading.Lock()
    threads = [threading.Thread(target=run, args=(name, paths, results, printing)) for name, paths in GROUPS.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [name for name, code in results.items() if code]
    print(f"tests: {'FAILED in ' + ', '.join(failed) if failed else 'all passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
