"""Upkeep of the lifecycle: what is unused grows cold, what outlived its retention or its budget is forgotten."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.errors import MemoryOSError

from memoryos_memoryfs.ports.lifecycle import LifecycleUpkeep, UpkeepRun

_CHUNKS_MAX: Final = 200
"""Transactions of one kind in one run of a tenant (100,000 items); the next run goes on."""
_log = logging.getLogger(__name__)


async def keep_lifecycle(upkeep: LifecycleUpkeep, clock: Clock, every_s: float) -> int:
    """Look after every tenant that is due; give their number. One that fails does not hold up the others."""
    await upkeep.enlist()
    count = 0
    while (tenant := await upkeep.claim(every_s)) is not None:
        count += 1
        began = time.monotonic()
        run = await _run(upkeep, tenant, clock, began)
        await upkeep.end(tenant, run)
        _log.info(
            "upkeep of a tenant",
            extra={
                "tenant": tenant,
                "duration_s": run.duration_s,
                "cold": run.cold_count,
                "expired": run.expired_count,
                "evicted": run.evicted_count,
            },
        )
    return count


async def _run(upkeep: LifecycleUpkeep, tenant: str, clock: Clock, began: float) -> UpkeepRun:
    expired = evicted = cold = 0
    reason = ""
    try:
        now = clock.now()
        expired = await _all(lambda: upkeep.expire(tenant, now))
        for key, keep_max in await upkeep.budgets(tenant):
            evicted += await _all(lambda key=key, most=keep_max: upkeep.evict(tenant, key, most, now))  # type: ignore[misc]
        cold = await _all(lambda: upkeep.cool(tenant, now))
    except MemoryOSError as error:
        reason = error.reason
        _log.exception("the upkeep of a tenant failed")
    return UpkeepRun(
        duration_s=time.monotonic() - began,
        cold_count=cold,
        expired_count=expired,
        evicted_count=evicted,
        reason=reason,
    )


async def _all(chunk: Callable[[], Awaitable[int]]) -> int:
    """Do chunk after chunk until nothing is left; give the sum."""
    total = 0
    for _ in range(_CHUNKS_MAX):
        done = await chunk()
        total += done
        if not done:
            break
    return total
