"""A real PostgreSQL for tests: one server per run, one database per test, cloned from a migrated template.

Fixtures (loaded by the root conftest.py):

- `postgres_server`      session; the server with roles and extensions.
- `migration_schemas`    session; which schemas a test's database has. Override it in a package's
                         conftest.py, e.g. `return ("core", "memoryfs")`; default: all installed.
- `database`             a fresh `Clone`: `.section`, `.dsn(role)`, `.admin_dsn`.
- `database_factory`     `await database_factory(roles.MEMORYFS)` → an open `Database`, closed afterwards.
- `key_ring`             a PostgresKeyRing with an epoch key of its own.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from memoryos_core.sealing import DataKey
from memoryos_postgres import Database, PostgresSection, roles
from memoryos_postgres.bootstrap import bootstrap, create_database, prepare_database, restrict_database
from memoryos_postgres.embedded import EmbeddedPostgres
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_postgres.migrate import PACKAGES, installed_folders, migrate
from psycopg import AsyncConnection, sql

_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 3 << 30
_PREFIX = "memoryos-test-"
DatabaseFactory = Callable[[str], Awaitable[Database]]


@dataclass(frozen=True)
class Clone:
    """A database of its own for one test."""

    section: PostgresSection
    admin_dsn: str

    def dsn(self, role: str) -> str:
        """DSN of `role` on this database."""
        return self.section.dsn(role)


class PostgresForTests:
    """A running server that hands out databases."""

    def __init__(self, server: EmbeddedPostgres, folder: Path) -> None:
        self.server = server
        self.secrets_dir = folder / "secrets"
        self._templates: dict[tuple[str, ...], str] = {}
        self._numbers = itertools.count(1)

    def section(self, database: str) -> PostgresSection:
        """The configuration section for `database`."""
        return PostgresSection(port=self.server.port, database=database, secrets_dir=self.secrets_dir)

    async def empty(self) -> Clone:
        """A database with extensions and roles but no schema, for tests of migrations."""
        name = f"empty_{next(self._numbers)}"
        await self._create(name, "template0")
        async with await AsyncConnection.connect(self.server.admin_dsn(name)) as inside:
            await prepare_database(inside, name)
        return Clone(self.section(name), self.server.admin_dsn(name))

    async def clone(self, schemas: tuple[str, ...]) -> Clone:
        """A database with the migrations of `schemas` (and core) applied."""
        if schemas not in self._templates:
            template = await self.empty()
            await migrate(template.dsn(roles.OWNER), installed_folders(schemas))
            self._templates[schemas] = template.section.database
        name = f"clone_{next(self._numbers)}"
        await self._create(name, self._templates[schemas])
        return Clone(self.section(name), self.server.admin_dsn(name))

    async def drop(self, clone: Clone) -> None:
        """Remove the database, whoever is still connected."""
        async with await AsyncConnection.connect(self.server.admin_dsn(), autocommit=True) as admin:
            await admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(clone.section.database)))

    async def _create(self, name: str, template: str) -> None:
        async with await AsyncConnection.connect(self.server.admin_dsn(), autocommit=True) as admin:
            await create_database(admin, name, template=template)
            await restrict_database(admin, name)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresForTests]:
    """The server of this test run. It ends with the run, however the run ends."""
    folder = _folder()
    # Tests kill processes, not machines: without fsync nothing that they can observe is lost.
    # One round of hashing instead of 4,096: every test opens a handful of connections.
    settings = {"max_connections": "200", "max_wal_size": "512MB", "scram_iterations": "1"}
    server = EmbeddedPostgres(folder, durable=False, settings=settings)
    try:
        with server:
            found = PostgresForTests(server, folder)
            asyncio.run(_hash_anew(server.admin_dsn()))
            asyncio.run(bootstrap(server.admin_dsn(), "memoryos", found.secrets_dir))
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    """Make a folder in memory where there is room: each test's database is 500 files, 15 ms there and 120 on a disk."""
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _MEMORY_BYTES_MIN:
        return Path(tempfile.mkdtemp(prefix=_PREFIX))
    for left in _MEMORY.glob(f"{_PREFIX}*"):  # of runs that were killed
        if not Path(f"/proc/{left.name.removeprefix(_PREFIX).partition('-')[0]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_MEMORY))


async def _hash_anew(admin_dsn: str) -> None:
    """Keep the administrator's password under the hashing of this run; it was made before the settings held."""
    async with await AsyncConnection.connect(admin_dsn, autocommit=True) as admin:
        name, password = admin.info.user, admin.info.password
        hashed = admin.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        await admin.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(name), sql.Literal(hashed)))


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    """Schemas in a test's database; override to stay independent of other packages' migrations."""
    return tuple(PACKAGES)


@pytest.fixture
async def database(postgres_server: PostgresForTests, migration_schemas: tuple[str, ...]) -> AsyncIterator[Clone]:
    """A fresh migrated database."""
    clone = await postgres_server.clone(migration_schemas)
    yield clone
    await postgres_server.drop(clone)


@pytest.fixture
async def database_factory(database: Clone) -> AsyncIterator[DatabaseFactory]:
    """Opens a Database for a role on this test's database."""
    opened: list[Database] = []

    async def make(role: str) -> Database:
        found = Database(database.section, role)
        opened.append(found)
        await found.open()
        return found

    yield make
    for found in opened:
        await found.close()


@pytest.fixture
def key_ring() -> PostgresKeyRing:
    """A key ring whose epoch key dies with the test."""
    return PostgresKeyRing(DataKey.generate())


async def admin_execute(clone: Clone, query: str) -> None:
    """Run SQL as superuser, as somebody who tampers with the database would."""
    async with await psycopg.AsyncConnection.connect(clone.admin_dsn, autocommit=True) as admin:
        await admin.execute(query.encode())
