"""What chaos tests read from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

QDRANT_BINARY = os.environ.get("MEMORYOS_QDRANT_BINARY", "")


@pytest.fixture(scope="session")
def qdrant_binary() -> Path:
    """The program of a Qdrant server (v1.18), which tests start and kill."""
    if not QDRANT_BINARY:
        pytest.skip("MEMORYOS_QDRANT_BINARY names no Qdrant server: there is none to kill")
    return Path(QDRANT_BINARY)
