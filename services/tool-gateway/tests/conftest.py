"""Fixtures of the tool gateway's tests."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from memoryos_core.sealing import DataKey
from memoryos_postgres import Database, roles
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_testing.opa import OpaServer, opa_server
from memoryos_testing.postgres import Clone, PostgresForTests

from .bench import Bench, demo_skills, write_skills
from .upstream import Upstream, serving_upstream
from .world import World, make_world

_TENANTS = itertools.count(1)


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core", "policy", "toolgateway")


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with serving_upstream() as server:
        yield server


@pytest.fixture(scope="session")
def shared_clone(postgres_server: PostgresForTests, migration_schemas: tuple[str, ...]) -> Clone:
    """One database for all tests that keep to a tenant of their own."""
    return asyncio.run(postgres_server.clone(migration_schemas))


@pytest.fixture
async def bench(
    tmp_path: Path, shared_clone: Clone, shared_key_ring: PostgresKeyRing, upstream: Upstream
) -> AsyncIterator[Bench]:
    async with opened_bench(tmp_path, shared_clone, shared_key_ring, upstream) as made:
        yield made


@pytest.fixture
async def lone_bench(
    tmp_path: Path, database: Clone, key_ring: PostgresKeyRing, upstream: Upstream
) -> AsyncIterator[Bench]:
    """A bench for tests that act across tenants: nobody else is in its database."""
    async with opened_bench(tmp_path, database, key_ring, upstream) as made:
        yield made


@asynccontextmanager
async def opened_bench(
    folder: Path, clone: Clone, key_ring: PostgresKeyRing, upstream: Upstream
) -> AsyncIterator[Bench]:
    (folder / "skills").mkdir()
    async with Database(clone.section, roles.TOOLGATEWAY) as database:
        made = Bench(folder / "skills", database, key_ring, upstream, tenant=f"t{next(_TENANTS)}")
        yield made
        await made.sender.close()


@pytest.fixture(scope="session")
def shared_key_ring() -> PostgresKeyRing:
    return PostgresKeyRing(DataKey.generate())


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
