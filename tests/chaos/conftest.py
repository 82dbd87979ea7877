"""What chaos tests read from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

QDRANT_BINARY = os.environ.get("MEMORYOS_QDRANT_BINARY", "")
ACTING_KILLS = os.environ.get("MEMORYOS_ACTING_KILLS", "")
TASK_KILLS = os.environ.get("MEMORYOS_TASK_KILLS", "")


@pytest.fixture(scope="session")
def qdrant_binary() -> Path:
    """The program of a Qdrant server (v1.18), which tests start and kill."""
    if not QDRANT_BINARY:
        pytest.skip("MEMORYOS_QDRANT_BINARY names no Qdrant server: there is none to kill")
    return Path(QDRANT_BINARY)


@pytest.fixture(scope="session")
def acting_kills() -> int | None:
    """How many kills the rounds of tool calls last, where it is not what the test says."""
    return int(ACTING_KILLS) if ACTING_KILLS else None


@pytest.fixture(scope="session")
def task_kills() -> int | None:
    """How many kills the rounds of tasks last, where it is not what the test says."""
    return int(TASK_KILLS) if TASK_KILLS else None
