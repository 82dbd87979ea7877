"""PostgreSQL as a child, or somebody's own server: brought to the point where services can start."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
from memoryos_postgres import roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.config import PostgresSection
from memoryos_postgres.embedded import command, prepare
from memoryos_postgres.migrate import installed_folders, migrate
from psycopg.conninfo import conninfo_to_dict

from memoryos_cli.datafolder import DataFolder
from memoryos_cli.exits import CliError, Exit
from memoryos_cli.supervisor.child import ChildSpec, Probe
from memoryos_cli.supervisor.ports import HOST


@dataclass(frozen=True, slots=True)
class ExternalDatabase:
    """A server that is not ours: where services reach it, and the administrator's DSN (a secret)."""

    host: str
    port: int
    admin_dsn: str = field(repr=False)

    @classmethod
    def parse(cls, dsn: str) -> ExternalDatabase:
        """Give the server that `dsn` names; CliError when it is no DSN, or names no host."""
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            raise CliError("--dsn is no PostgreSQL connection string", exit_code=Exit.USAGE) from None
        host = str(parts.get("host") or "")
        if not host:
            raise CliError("--dsn names no host", exit_code=Exit.USAGE)
        return cls(host, int(parts.get("port") or 5432), dsn)


def postgres_child(folder: DataFolder, port: int, on_ready: Callable[[], Awaitable[None]]) -> ChildSpec:
    """Give the embedded server. It ends by itself with us (its launcher), by a fast shutdown."""
    password_file = folder.secrets / "postgres.password"

    def argv() -> list[str]:
        return command(prepare(folder.postgres, password_file), port)

    def admin_dsn() -> str:
        return prepare(folder.postgres, password_file).admin_dsn(port)

    return ChildSpec(
        name="postgres",
        argv=argv,
        probe=accepts_connections(admin_dsn),
        log_file=folder.logs / "postgres.log",
        address=f"{HOST}:{port}",
        stop_signals=((signal.SIGINT, 60.0), (signal.SIGQUIT, 5.0)),
        launched=True,
        on_ready=on_ready,
    )


def embedded_admin_dsn(folder: DataFolder, port: int) -> str:
    """Give the superuser's DSN of the embedded server; it holds the password."""
    return prepare(folder.postgres, folder.secrets / "postgres.password").admin_dsn(port)


def accepts_connections(dsn: Callable[[], str]) -> Probe:
    """Give a probe that is true when the server takes a connection."""

    async def probe() -> bool:
        with suppress(psycopg.OperationalError):
            async with await psycopg.AsyncConnection.connect(dsn(), connect_timeout=2):
                return True
        return False

    return probe


async def prepare_database(admin_dsn: str, section: PostgresSection) -> list[str]:
    """Make roles and database, apply what migrations are missing and give their names; safe to repeat."""
    await bootstrap(admin_dsn, section.database, section.secrets_dir)
    return await apply_migrations(section)


async def apply_migrations(section: PostgresSection) -> list[str]:
    """Apply what migrations are missing and give their names."""
    return await migrate(section.dsn(roles.OWNER), installed_folders())
