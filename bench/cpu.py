"""CPU time of the deployment's processes: steady where wall-clock time depends on the neighbours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil


class CpuMeter:
    """Seconds of CPU that named children of `mos up` have used, their own children included."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        status = json.loads((folder / "run" / "status.json").read_text(encoding="utf-8"))
        pids = {child["name"]: child["pid"] for child in status["children"]}
        self._processes = {name: psutil.Process(pids[name]) for name in names}

    def read(self) -> Mapping[str, float]:
        """Give the seconds used so far, by name."""
        return {name: sum(map(_seconds, [top, *top.children(recursive=True)])) for name, top in self._processes.items()}


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
