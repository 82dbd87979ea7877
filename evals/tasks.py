"""`make eval-tasks`: whole tasks on a deployment: recorded conversations, many users at once, an upstream that fails.

python -m evals.tasks [--data DIR] [--scene airline|crosswoz|failures] [--limit N] [--check]

The exit code is 1 with --check when a bar is missed, and when there is nothing to play.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from evals import task_failures, task_replay

DEFAULT_DATA: Final = Path("../shared/eval/data")
FIRST_TRY_MAX: Final = 0.84
CAREFUL_MIN: Final = 0.96
WORKER_BYTES_MAX: Final = 1 << 30


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="evals.tasks", description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="folder with load/")
    parser.add_argument("--scene", choices=("airline", "crosswoz", "failures"), help="only this one")
    parser.add_argument("--limit", type=int, help="traces, or tasks of the failing upstream, at most")
    parser.add_argument("--check", action="store_true", help="fail when a bar is missed")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    scenes = [options.scene] if options.scene else ["failures", "airline", "crosswoz"]
    missing = [name for name in (task_replay.AIRLINE, task_replay.CROSSWOZ) if not (options.data / name).is_file()]
    if missing:
        console.print(f"[yellow]not there, so not played: {', '.join(missing)}[/]")
        scenes = [scene for scene in scenes if scene == "failures"]
    met = [asyncio.run(_play(scene, options, console)) for scene in scenes]
    sys.exit(int(not met or (options.check and not all(met))))


async def _play(scene: str, options: argparse.Namespace, console: Console) -> bool:
    if scene == "failures":
        found = await task_failures.measure(options.limit or task_failures.TASKS)
        for agent, outcome in found.items():
            console.print(
                f"{agent}: {outcome.succeeded} of {outcome.tasks} ({outcome.share:.3f}), {outcome.steps} steps, "
                f"done twice {outcome.doubled}, said falsely {outcome.false}"
            )
        plain, careful = found["plain"], found["careful"]
        sound = not (plain.doubled or careful.doubled or plain.false or careful.false)
        return sound and plain.share <= FIRST_TRY_MAX and careful.share >= CAREFUL_MIN
    if scene == "airline":
        played = await task_replay.airline(options.data, options.limit)
        console.print(
            f"airline: {played.whole} of {played.traces} traces whole, {played.tasks} tasks, {played.calls} calls, "
            f"arguments up to {played.arguments_bytes_max} bytes"
        )
        for fault in played.faults[:20]:
            console.print(f"    {escape(fault)}")
        return played.whole == played.traces
    talked = await task_replay.crosswoz(options.data)
    console.print(
        f"CrossWOZ: {talked.sessions} sessions at once, {talked.turns} turns, {talked.mixed} mixed up, "
        f"{talked.failed} failed; one worker with {talked.open_sessions} sessions open: "
        f"{talked.worker_bytes / (1 << 20):.0f} MiB"
    )
    return not talked.mixed and not talked.failed and talked.worker_bytes < WORKER_BYTES_MAX


if __name__ == "__main__":
    main()
