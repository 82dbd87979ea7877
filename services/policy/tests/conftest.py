"""The policy service on real PostgreSQL and real OPA."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from memoryos_testing.opa import OpaServer, opa_server
from memoryos_testing.postgres import Clone

from .world import World, make_world, serving


@pytest.fixture
def migration_schemas() -> tuple[str, ...]:
    return ("core", "policy")


@pytest.fixture
async def opa(tmp_path: Path) -> AsyncIterator[OpaServer]:
    async with opa_server(tmp_path) as server:
        yield server


@pytest.fixture
async def world(tmp_path: Path, database: Clone, opa: OpaServer) -> AsyncIterator[World]:
    """A running policy service over the repository's bundle."""
    made = make_world(tmp_path, database, opa.port)
    async with serving(made):
        yield made
