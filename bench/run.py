"""`make bench`: what our layers cost, as ratios to the raw engines measured in the same run.

python -m bench.run [--items 100000] [--quick] [--check] [--out FILE]

One deployment with PostgreSQL, OPA, policy, MemoryFS and the audit sealer, all
guards on: tokens, row-level security, sealing, idempotency, audit. Vectors are
given, so the local embedder is not measured. Expected values are for 2 quiet
cores; on any other machine compare the ratios, and the CPU time a call, which
busy neighbours change least. Latencies are p50 / p95.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from memoryos_testing.stack import running_stack
from rich.console import Console
from rich.table import Table

from bench.scenes import Bench, Figure

WITHOUT = ("tool-gateway", "harness", "harness-worker")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__)
    parser.add_argument("--items", type=int, default=100_000, help="items in all tenants at the end")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it works")
    parser.add_argument("--check", action="store_true", help="fail when a figure is missed")
    parser.add_argument("--out", type=Path, help="file for the figures as JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the deployment is stopped, too
    console = Console(width=None if sys.stdout.isatty() else 170)
    figures = asyncio.run(bench(options.items, console, quick=options.quick))
    console.print(_table(figures))
    if options.out:
        text = json.dumps([asdict(figure) for figure in figures], indent=2)
        options.out.write_text(text + "\n", encoding="utf-8")
    missed = [figure for figure in figures if figure.met is False]
    for figure in missed:
        console.print(f"[red]missed: {figure.name}: {figure.ours}, expected {figure.expected}[/]", highlight=False)
    sys.exit(1 if missed and options.check else 0)


async def bench(items: int, console: Console, *, quick: bool) -> list[Figure]:
    """Start a deployment and measure everything on it."""
    machine = f"{os.cpu_count()} cores ({platform.machine()}), load {os.getloadavg()[0]:.1f} at the start"
    console.print(f"{machine}, {items} items, Python {platform.python_version()}", highlight=False)
    async with running_stack(without=WITHOUT) as stack:
        return await Bench(stack, items // 10 if quick else items, 0.1 if quick else 1.0, console.print).run()


def _table(figures: list[Figure]) -> Table:
    table = Table(title="Memory OS against the raw engines, same machine, same run")
    for name in ("figure", "ours", "raw", "ratio", "expected", "", "CPU ms a call"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for figure in figures:
        mark = "" if figure.met is None else "[green]met[/]" if figure.met else "[red]missed[/]"
        table.add_row(figure.name, figure.ours, figure.raw, figure.ratio, figure.expected, mark, figure.cpu)
    return table


if __name__ == "__main__":
    main()
