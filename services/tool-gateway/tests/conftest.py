"""Fixtures of the tool gateway's tests."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from memoryos_core.sealing import DataKey
from memoryos_postgres import Database, roles
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_testing.opa import free_port, opa_server
from memoryos_testing.postgres import Clone, PostgresForTests

from .bench import Bench, demo_skills, write_skills
from .obliged import all_told, obliged_skills, with_obligations
from .upstream import Upstream, serving_upstream
from .world import World, make_world

_TENANTS = itertools.count(1)


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core", "memoryfs", "policy", "toolgateway")


@pytest.fixture(scope="session")
def upstream_port() -> int:
    """Every test's upstream listens on it in turn, so that one gateway serves many tests."""
    return free_port()


@pytest.fixture
async def upstream(upstream_port: int) -> AsyncIterator[Upstream]:
    async with serving_upstream(upstream_port) as server:
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


@pytest.fixture(scope="session")
def shared_key_ring() -> PostgresKeyRing:
    return PostgresKeyRing(DataKey.generate())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def deployment(
    tmp_path_factory: pytest.TempPathFactory, shared_clone: Clone, upstream_port: int
) -> AsyncIterator[World]:
    """OPA and the policy service run; no gateway does."""
    folder = tmp_path_factory.mktemp("deployment")
    rules = with_obligations(folder / "bundle")
    async with opa_server(folder, bundle_dir=rules) as opa:
        made = make_world(folder, shared_clone, opa, {"UPSTREAM": f"127.0.0.1:{upstream_port}"})
        (folder / "team.url").write_text(f"http://127.0.0.1:{upstream_port}/say/notice")
        made.config["tool-gateway"]["notify_channels"] = {"team": {"url_file": str(folder / "team.url")}}
        made.config["policy"]["bundle_dir"] = str(rules)
        write_skills(folder / "skills", *demo_skills(), *obliged_skills())
        async with made.process("policy", "memoryos_policy.main"):
            made.config["peers"]["policy"] = made.address("policy")
            yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def serving_gateway(deployment: World) -> AsyncIterator[World]:
    """One gateway for all tests that do not harm it."""
    async with deployment.gateway():
        yield deployment


@pytest.fixture
async def world(serving_gateway: World, bench: Bench) -> AsyncIterator[World]:
    """Callers of the shared gateway, in a tenant of the test's own; no notice of it is told after its test."""
    made = replace(serving_gateway, tenant=f"w{next(_TENANTS)}", channels={})
    yield made
    await made.close()
    await all_told(bench, made)


@pytest.fixture
async def own_world(world: World) -> AsyncIterator[World]:
    """The same tenant before a further gateway, which the test starts and may kill; `world` is the surviving one."""
    made = replace(world, instance=f"gateway-{world.tenant}", channels={})
    yield made
    await made.close()
