"""How long calls take, one after the other and several at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles

from bench.cpu import CpuMeter

Call = Callable[[int], Awaitable[object]]
"""The n-th call of a measure."""


@dataclass(frozen=True)
class Timing:
    """Latencies of the calls and their rate."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    per_s: float
    cpu_ms: Mapping[str, float] = field(default_factory=dict)
    """CPU time a call, by process."""


async def measure(call: Call, *, count: int, at_once: int = 1, warm: int = 10, meter: CpuMeter | None = None) -> Timing:
    """Give the timing of `count` calls by `at_once` callers, after `warm` calls that do not count.

    Calls are numbered from 0, the warm ones first: no number comes twice.
    """
    for number in range(warm):
        await call(number)
    numbers = iter(range(warm, warm + count))
    seconds: list[float] = []

    async def caller() -> None:
        for number in numbers:
            began = time.perf_counter()
            await call(number)
            seconds.append(time.perf_counter() - began)

    used = meter.read() if meter else {}
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(caller())
    elapsed_s = time.perf_counter() - began
    cpu_ms = {name: 1000 * (total - used[name]) / count for name, total in (meter.read() if meter else {}).items()}
    return timing(seconds, elapsed_s, cpu_ms)


async def paced(call: Call, *, per_s: float, count: int, meter: CpuMeter | None = None) -> Timing:
    """Give the timing of `count` calls that come evenly, whether earlier ones have ended or not.

    A call is timed from when it was due: what waits for its turn counts.
    """
    seconds: list[float] = []
    used = meter.read() if meter else {}
    began = time.perf_counter()

    async def one(number: int) -> None:
        due = began + number / per_s
        await asyncio.sleep(due - time.perf_counter())
        await call(number)
        seconds.append(time.perf_counter() - due)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))
    elapsed_s = time.perf_counter() - began
    cpu_ms = {name: 1000 * (total - used[name]) / count for name, total in (meter.read() if meter else {}).items()}
    return timing(seconds, elapsed_s, cpu_ms)


def timing(seconds: Sequence[float], elapsed_s: float, cpu_ms: Mapping[str, float] | None = None) -> Timing:
    """Give the timing of calls that took `seconds` each, all of them `elapsed_s`."""
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    return Timing(
        p50_ms=1000 * cuts[49],
        p95_ms=1000 * cuts[94],
        p99_ms=1000 * cuts[98],
        per_s=len(seconds) / elapsed_s,
        cpu_ms=cpu_ms or {},
    )
