"""How much time the call at hand still has; outgoing calls never ask for more."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

_deadline: ContextVar[float | None] = ContextVar("memoryos_deadline", default=None)


def set_deadline(loop_time: float) -> None:
    """Set the deadline of the current task, by its event loop's clock. For the deadline interceptor."""
    _deadline.set(loop_time)


def remaining_s() -> float | None:
    """Give the seconds that are left (negative when past), or None outside of a call."""
    deadline = _deadline.get()
    return None if deadline is None else deadline - asyncio.get_running_loop().time()
