"""`make bench`: what our layers cost, as ratios to the raw engines measured in the same run.

python -m bench.run [--scene basic|decide|act|tasks|selectivity|tenants] [--items 100000] [--million]
    [--quick] [--check] [--out FILE]

One deployment with PostgreSQL, MemoryFS and the audit sealer, or with policy and
OPA (decide), and the tool gateway (act), all guards on: tokens, row-level
security, sealing, idempotency, audit. Vectors are given, so the local embedder
is not measured. Expected values are for 2 quiet
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

from bench.act import ActBench
from bench.decide import DecideBench
from bench.figures import Figure, Figures
from bench.scale import SETTINGS, ScaleBench
from bench.scenes import Bench
from bench.tasks import TasksBench

WITHOUT = ("tool-gateway", "harness", "harness-worker", "policy", "opa")
SCENES = ("basic", "decide", "act", "tasks", "selectivity", "tenants")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__)
    parser.add_argument("--scene", choices=SCENES, default="basic", help="what to measure")
    parser.add_argument("--items", type=int, default=100_000, help="items in the end (basic, selectivity)")
    parser.add_argument("--million", action="store_true", help="selectivity at 1,000,000 items: takes an hour")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it works")
    parser.add_argument("--backend", choices=("pgvector", "qdrant"), default="pgvector", help="qdrant: at QDRANT_URL")
    parser.add_argument("--check", action="store_true", help="fail when a figure is missed")
    parser.add_argument("--out", type=Path, help="file for the figures as JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the deployment is stopped, too
    console = Console(width=None if sys.stdout.isatty() else 170)
    settings = list(SETTINGS)
    if options.backend == "qdrant":
        url = os.environ.get("QDRANT_URL")
        if not url:
            parser.error("--backend qdrant needs QDRANT_URL")
        settings += ["memoryfs.vector_backend=qdrant", f"qdrant.url={url}"]
    figures = asyncio.run(bench(options, settings, console))
    console.print(_table(figures))
    if options.out:
        text = json.dumps([asdict(figure) for figure in figures], indent=2)
        options.out.write_text(text + "\n", encoding="utf-8")
    missed = [figure for figure in figures if figure.met is False]
    for figure in missed:
        console.print(f"[red]missed: {figure.name}: {figure.ours}, expected {figure.expected}[/]", highlight=False)
    sys.exit(1 if missed and options.check else 0)


async def bench(options: argparse.Namespace, settings: list[str], console: Console) -> list[Figure]:
    """Start a deployment and measure one scene on it."""
    scale = 0.1 if options.quick else 1.0
    items = int((1_000_000 if options.million else options.items) * scale)
    scene = "selectivity" if options.million else options.scene
    machine = f"{os.cpu_count()} cores ({platform.machine()}), load {os.getloadavg()[0]:.1f} at the start"
    console.print(f"{scene}, {machine}, {options.backend}, Python {platform.python_version()}", highlight=False)
    figures = Figures(lambda text: console.print(text, highlight=False))
    if scene == "decide":
        await DecideBench(figures, scale).run()
        return figures.all
    if scene == "act":
        await ActBench(figures, scale).run()
        return figures.all
    if scene == "tasks":
        await TasksBench(figures, scale).run()
        return figures.all
    async with running_stack(without=WITHOUT, settings=settings) as stack:
        if scene == "basic":
            await Bench(stack, items, scale, figures).run()
        elif scene == "selectivity":
            big = items > 500_000
            await ScaleBench(stack, figures, max(50, int(300 * scale))).selectivity(
                items, p95_ms_max=25.0 if big else 15.0, recall_min=0.99 if big else 1.0
            )
        else:
            tenants, giant = int(5_000 * scale), int(300_000 * scale)
            await ScaleBench(stack, figures, max(50, int(300 * scale))).many_tenants(tenants, 200, giant)
    return figures.all


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
