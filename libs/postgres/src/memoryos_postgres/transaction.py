"""Tx: one transaction, in few round trips.

`BEGIN` and the scope are one round trip, sent with the first statement's call;
`defer`red statements and `COMMIT` are another one. Both go as one simple query
with literals that the driver escapes: measured against psycopg's pipeline mode
that is less CPU and no slower, COPY works, and the idle-in-transaction timeout
runs (a pipeline ends with Flush after Sync, which stops it).

Rows are dicts. Parameters are `%s` or `%(name)s`; every statement is prepared.
A Tx belongs to one task: statements run one after the other.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from memoryos_core.errors import InternalError
from psycopg import AsyncClientCursor, AsyncConnection, AsyncCopy, AsyncCursor
from psycopg.pq import Escaping, TransactionStatus

from memoryos_postgres.errors import DatabaseFault, translated

Row = dict[str, Any]
Params = Sequence[Any] | Mapping[str, Any] | None
Statement = tuple[str, Params]


class NotCommitted(InternalError):
    """The transaction had failed before its end, so nothing of it was kept."""


class Tx:
    """A transaction inside `async with db.scoped(scope) as tx`.

    Driver errors come out translated. After an error only leaving the block
    (or the `savepoint` block around it) helps.
    """

    def __init__(self, connection: AsyncConnection[Row], settings: Mapping[str, str]) -> None:
        self._connection = connection
        self._settings = {f"memoryos.{name}": value for name, value in settings.items()}
        self._begun = False
        self._deferred: list[Statement] = []
        self._on_commit: list[Callable[[], None]] = []
        self.local: dict[str, Any] = {}
        """What lives as long as the transaction, by owner; e.g. keys made here and not yet committed."""

    async def execute(self, query: str, params: Params = None) -> int:
        """Run a statement; gives the number of rows it touched."""
        return (await self._run(query, params)).rowcount

    async def fetch_one(self, query: str, params: Params = None, *, binary: bool = False) -> Row | None:
        """The first row, or None."""
        cursor = await self._run(query, params, binary=binary)
        return await cursor.fetchone()

    async def fetch_all(self, query: str, params: Params = None, *, binary: bool = False) -> list[Row]:
        """All rows; `binary` asks for the binary form (fast for vectors and bytea)."""
        cursor = await self._run(query, params, binary=binary)
        return await cursor.fetchall()

    async def fetch_alone(self, query: str, params: Params = None) -> list[Row]:
        """All rows of a read that is a transaction by itself: one round trip, and nothing is open afterwards.

        Statements that follow begin a transaction of their own. Inside one that
        has begun this is `fetch_all`.
        """
        if self._begun or self._deferred:
            return await self.fetch_all(query, params)
        with translated():
            statements = [self._opening(), self._inlined(query, params), b"COMMIT"]
            cursor = await self._connection.execute(b";\n".join(statements), prepare=False)
            await cursor.set_result(-2)
            return await cursor.fetchall()

    async def fetch_planned(self, settings: Mapping[str, str], query: str, params: Params = None) -> list[Row]:
        """All rows of a statement that is planned under `settings`, which end with it: one round trip.

        For the few statements whose plan must not be the planner's choice.
        """
        with translated():
            await self._begin()
            names = sorted(settings)
            before = [b"SELECT " + b",".join(self._set_config(name, settings[name]) for name in names)]
            after = [f"SET LOCAL {name} TO DEFAULT".encode() for name in names]
            statements = [*before, self._inlined(query, params), *after]
            cursor = await self._connection.execute(b";\n".join(statements), prepare=False)
            await cursor.set_result(1)
            return await cursor.fetchall()

    async def set_local(self, settings: Mapping[str, str]) -> None:
        """Set session parameters until the transaction ends; costs no round trip before its first statement."""
        if not self._begun:
            self._settings.update(settings)
            return
        with translated():
            parts = [self._set_config(name, value) for name, value in settings.items()]
            await self._connection.execute(b"SELECT " + b",".join(parts), prepare=False)

    async def fetch_value(self, query: str, params: Params = None) -> Any:
        """The first column of the first row, or None without a row."""
        row = await self.fetch_one(query, params)
        return None if row is None else next(iter(row.values()))

    async def executemany(self, query: str, params: Sequence[Sequence[Any] | Mapping[str, Any]]) -> int:
        """Run a statement for each of `params` in one go; gives the number of rows touched in all."""
        with translated():
            await self._begin()
            cursor = self._connection.cursor()
            await cursor.executemany(query.encode(), params)
            return cursor.rowcount

    @asynccontextmanager
    async def copy(self, query: str) -> AsyncIterator[AsyncCopy]:
        """COPY … FROM STDIN or TO STDOUT (PostgreSQL refuses it for tables with row-level security)."""
        with translated():
            await self._begin()
            async with self._connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
                yield copy

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A block that can fail on its own: an error inside undoes the block only, and goes on to the caller."""
        with translated():
            await self._begin()
            async with self._connection.transaction():
                yield

    def defer(self, query: str, params: Params = None) -> None:
        """Run a statement right before COMMIT, in the same round trip. Its error undoes the transaction."""
        self._deferred.append((query, params))

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is committed; never when it is not."""
        self._on_commit.append(callback)

    async def connection(self) -> AsyncConnection[Row]:
        """The psycopg connection inside the begun transaction, for what Tx does not offer."""
        with translated():
            await self._begin()
        return self._connection

    async def _run(self, query: str, params: Params, *, binary: bool = False) -> AsyncCursor[Row]:
        with translated():
            await self._begin()
            cursor = self._connection.cursor(binary=binary)
            await cursor.execute(query.encode(), params)
            return cursor

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            await self._connection.execute(self._opening(), prepare=False)

    def _opening(self) -> bytes:
        """BEGIN, and the settings that last until its end."""
        if not self._settings:
            return b"BEGIN"
        parts = [self._set_config(name, value) for name, value in self._settings.items()]
        return b"BEGIN;SELECT " + b",".join(parts)

    def _set_config(self, name: str, value: str) -> bytes:
        if "\0" in value:  # libpq would cut the value off here
            raise DatabaseFault("22021")
        quoted = Escaping(self._connection.pgconn).escape_literal(value.encode())
        return b"set_config('%s',%s,true)" % (name.encode(), quoted)

    def _inlined(self, query: str, params: Params) -> bytes:
        """The statement with its parameters as literals, escaped by libpq for this connection."""
        return AsyncClientCursor(self._connection).mogrify(query.encode(), params).encode()

    async def _commit(self) -> None:
        if not self._begun and not self._deferred:
            self._committed()
            return
        if self._begun and self._connection.info.transaction_status != TransactionStatus.INTRANS:
            raise NotCommitted
        with translated():
            statements = [] if self._begun else [self._opening()]
            statements += [self._inlined(query, params) for query, params in self._deferred]
            self._begun = True
            cursor = await self._connection.execute(b";\n".join([*statements, b"COMMIT"]), prepare=False)
            await cursor.set_result(-1)
        if cursor.statusmessage != "COMMIT":  # the server answers ROLLBACK, without an error, to a failed transaction
            raise NotCommitted
        self._committed()

    def _committed(self) -> None:
        for callback in self._on_commit:
            callback()

    async def _rollback(self) -> None:
        """Leave the connection idle or closed, whatever happened."""
        connection = self._connection
        status = connection.info.transaction_status
        if connection.closed or status == TransactionStatus.IDLE:
            return
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            await connection.execute("ROLLBACK", prepare=False)
        else:
            await connection.close()
