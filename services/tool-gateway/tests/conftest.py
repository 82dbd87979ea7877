"""Fixtures of the tool gateway's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from memoryos_postgres import roles
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_testing.opa import OpaServer, opa_server
from memoryos_testing.postgres import Clone, DatabaseFactory

from .bench import Bench, demo_skills, write_skills
from .upstream import Upstream, serving_upstream
from .world import World, make_world


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core", "policy", "toolgateway")


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with serving_upstream() as server:
        yield server


@pytest.fixture
async def bench(
    tmp_path: Path, database_factory: DatabaseFactory, key_ring: PostgresKeyRing, upstream: Upstream
) -> AsyncIterator[Bench]:
    database = await database_factory(roles.TOOLGATEWAY)
    made = Bench(tmp_path / "skills", database, key_ring, upstream)
    made.folder.mkdir()
    yield made
    await made.sender.close()


@pytest.fixture
async def opa(tmp_path: Path) -> AsyncIterator[OpaServer]:
    async with opa_server(tmp_path) as server:
        yield server


@pytest.fixture
async def stopped_world(tmp_path: Path, database: Clone, opa: OpaServer, upstream: Upstream) -> AsyncIterator[World]:
    """Policy runs; the test starts the gateway, once its skills are there."""
    made = make_world(tmp_path, database, opa, {"UPSTREAM": upstream.address})
    write_skills(made.skills, *demo_skills())
    async with made.policy():
        yield made
        await made.close()


@pytest.fixture
async def world(stopped_world: World) -> AsyncIterator[World]:
    """Policy and gateway run, with the demo's skill names before the test's upstream."""
    async with stopped_world.gateway():
        yield stopped_world
