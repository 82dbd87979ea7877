"""Removes one guard at a time and shows that a named test turns red.

Each entry of scripts/mutants.yaml names a guard, the text that holds it, what
stands there without it, and the tests that must notice. Work is done on a copy
of the tree; a mutant whose text is not found exactly once, or whose tests stay
green, fails the run. `--only NAME` (any number of times) runs those whose
name contains NAME.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
COPIED = ("libs", "services", "tests", "proto", "deploy", "scripts", "pyproject.toml", "conftest.py")
TIMEOUT_S = 300


@dataclass(frozen=True)
class Mutant:
    """One guard, and what the code is without it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def load() -> list[Mutant]:
    """Read the list."""
    rows = yaml.safe_load((ROOT / "scripts" / "mutants.yaml").read_text(encoding="utf-8"))
    return [Mutant(row["name"], row["file"], row["old"], row["new"], tuple(row["tests"])) for row in rows]


def copy_tree(target: Path) -> None:
    """Copy what tests need."""
    for name in COPIED:
        source = ROOT / name
        ignore = shutil.ignore_patterns("__pycache__", ".mypy_cache", ".pytest_cache", "*.egg-info")
        shutil.copytree(source, target / name, ignore=ignore) if source.is_dir() else shutil.copy(source, target / name)
    for name in (".venv", ".tools"):
        (target / name).symlink_to(ROOT / name)


def run_tests(tree: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests of the copy against the code of the copy."""
    sources = [str(path) for path in sorted([*tree.glob("libs/*/src"), *tree.glob("services/*/src")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(  # noqa: PLW1510 - the code is the answer
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    return done.returncode, done.stdout[-3000:] + done.stderr[-1000:]


def check(tree: Path, mutant: Mutant) -> str | None:
    """Say why a mutant was not caught, or None."""
    file = tree / mutant.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        return f"its text stands {text.count(mutant.old)} times in {mutant.file}"
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, output = run_tests(tree, mutant.tests)
    except subprocess.TimeoutExpired:
        return f"its tests did not end in {TIMEOUT_S} s"
    finally:
        file.write_text(text, encoding="utf-8")
    if code == 1 and " failed" in output:
        return None
    return f"no test noticed (pytest ended with {code}):\n{output}"


def main() -> int:
    """Check every mutant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", default=[])
    only = parser.parse_args().only or [""]
    mutants = [mutant for mutant in load() if any(name in mutant.name for name in only)]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        # The database of the tests runs as another user, who must be able to read the copy.
        tree.chmod(0o755)
        copy_tree(tree)
        baseline = tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        code, output = run_tests(tree, baseline)
        if code:
            print(f"the tests are red without any mutant:\n{output}")
            return 1
        for mutant in mutants:
            start = time.monotonic()
            wrong = check(tree, mutant)
            survivors += wrong is not None
            print(f"{'SURVIVED' if wrong else 'caught':9} {mutant.name} ({time.monotonic() - start:.0f} s)", flush=True)
            if wrong:
                print(f"          {wrong}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} guards are watched by a test")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
