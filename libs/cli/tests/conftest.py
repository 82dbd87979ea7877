"""A way to wait for a condition, and small programs to supervise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .programs import Programs

WAIT_S = 20.0


async def eventually(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    """Return when `condition` holds; fail after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)
