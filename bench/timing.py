"""How long calls take, one after the other and several at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

Call = Callable[[int], Awaitable[object]]
"""The n-th call of a measure."""


@dataclass(frozen=True)
class Timing:
    """Latencies of the calls and their rate."""

    p50_ms: float
    p95_ms: float
    per_s: float


async def measure(call: Call, *, count: int, at_once: int = 1, warm: int = 10) -> Timing:
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

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(caller())
    return timing_of(seconds, time.perf_counter() - began)


def timing_of(seconds: Sequence[float], elapsed_s: float) -> Timing:
    """Give the timing of calls that took `seconds` each and `elapsed_s` in all."""
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    return Timing(p50_ms=1000 * cuts[49], p95_ms=1000 * cuts[94], per_s=len(seconds) / elapsed_s)
