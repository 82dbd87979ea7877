"""Database: a pool for one role, and the four kinds of transaction.

- `scoped(scope)`: tenant, principals, user and clearance are set; the normal kind.
- `upkeep(tenant)`: work that no reader asked for (erasure, retention, verification): every row
  of one tenant, where a policy named `upkeep` says so.
- `tenant(name)`: only the tenant is set: workers that act for one tenant. Rows
  guarded by principals stay out of reach.
- `unscoped()`: nothing is set; every row guarded by tenant raises `ScopeMissing`.
  For queue tables without content.

The settings end with the transaction; what a reused connection finds is empty,
and the SQL functions raise on empty as on unset.
"""

import asyncio
import select
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

import psycopg
from memoryos_core.scope import Scope
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from memoryos_postgres.config import PostgresSection
from memoryos_postgres.errors import translated
from memoryos_postgres.transaction import Row, Tx

_ROLLBACK_TIMEOUT_S: Final = 2.0
_UPKEEP_PRINCIPAL: Final = "upkeep"
_UPKEEP_USER: Final = "/upkeep"
"""No principal and no user of any token: those have a colon, and these no slash. So policies for readers show nothing,
and do not raise."""


class Database:
    """The database as one role sees it. `async with Database(section, role) as db`, or `open` and `close`."""

    def __init__(self, section: PostgresSection, role: str) -> None:
        self._acquire_timeout_s = section.acquire_timeout_s
        options = {
            "statement_timeout": f"{section.statement_timeout_s:g}s",
            "idle_in_transaction_session_timeout": f"{section.idle_in_transaction_timeout_s:g}s",
            # A server works on for a client that is gone, with all its locks, unless it looks.
            "client_connection_check_interval": "1s",
            "timezone": "UTC",
            # Statements of a service take milliseconds: compiling or spreading them costs more than it gives.
            "jit": "off",
            "max_parallel_workers_per_gather": "0",
        }
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] = AsyncConnectionPool(
            section.dsn(role),
            connection_class=AsyncConnection[Row],
            kwargs={
                "autocommit": True,  # Tx says BEGIN itself
                "row_factory": dict_row,
                # Tx prepares its statements (together.py). Were any of the driver's prepared, too, it would
                # drop all of the connection, ours among them, after the next ROLLBACK.
                "prepare_threshold": None,
                "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
                "connect_timeout": 5,
            },
            min_size=section.pool_size,
            max_size=section.pool_size,
            open=False,
            name=role,
        )

    async def open(self) -> None:
        """Connect; raises DatabaseUnavailable when the server does not answer in time."""
        with translated():
            await self._pool.open(wait=True, timeout=self._acquire_timeout_s)

    async def close(self) -> None:
        """Disconnect; transactions still open are rolled back by the server."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def scoped(self, scope: Scope) -> AsyncIterator[Tx]:
        """A transaction in which tables show what `scope` may see; committed unless the block raises."""
        settings = {
            "tenant": scope.tenant,
            "principals": array_literal(scope.principals),
            "user": scope.user,
            "clearance": str(scope.clearance),
        }
        async with self._transaction(settings) as tx:
            yield tx

    @asynccontextmanager
    async def upkeep(self, tenant: str) -> AsyncIterator[Tx]:
        """A transaction that reaches every row of one tenant; for jobs only, never for what a caller asked to read."""
        settings = {
            "tenant": tenant,
            "principals": array_literal((_UPKEEP_PRINCIPAL,)),
            "user": _UPKEEP_USER,
            "upkeep": "on",
        }
        async with self._transaction(settings) as tx:
            yield tx

    @asynccontextmanager
    async def tenant(self, tenant: str) -> AsyncIterator[Tx]:
        """A transaction of one tenant without a reader; committed unless the block raises."""
        async with self._transaction({"tenant": tenant}) as tx:
            yield tx

    @asynccontextmanager
    async def unscoped(self) -> AsyncIterator[Tx]:
        """A transaction that reaches content-free tables only; committed unless the block raises."""
        async with self._transaction({}) as tx:
            yield tx

    @asynccontextmanager
    async def _transaction(self, settings: Mapping[str, str]) -> AsyncIterator[Tx]:
        connection = await self._acquire()
        tx = Tx(connection, settings)
        try:
            yield tx
            await tx._commit()
        except BaseException:
            await _give_up(tx, connection)
            raise
        finally:
            await self._pool.putconn(connection)

    async def _acquire(self) -> AsyncConnection[Row]:
        """A connection that the server has not hung up on, or DatabaseUnavailable in time."""
        deadline = time.monotonic() + self._acquire_timeout_s
        while True:
            with translated():
                connection = await self._pool.getconn(max(deadline - time.monotonic(), 0.001))
            if not _hung_up(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)  # the pool opens another one


async def _give_up(tx: Tx, connection: AsyncConnection[Row]) -> None:
    """Roll back; a connection that cannot do so in time is closed, and the server rolls back."""
    try:
        await asyncio.wait_for(tx._rollback(), _ROLLBACK_TIMEOUT_S)
    except (psycopg.Error, TimeoutError):
        await connection.close()


def _hung_up(connection: AsyncConnection[Row]) -> bool:
    """Whether the server said something to an idle connection: its last words, or the end. Costs no round trip."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def array_literal(values: tuple[str, ...]) -> str:
    """The text form of a text[], as PostgreSQL reads it."""
    quoted = ('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values)
    return "{" + ",".join(quoted) + "}"
