"""Tx: one transaction, as few round trips as it can.

`BEGIN`, the scope and the first statement travel together; `defer`red
statements and `COMMIT` too. A write of [insert, defer audit, defer answer] is
two round trips. Rows are dicts. Parameters are `%s` or `%(name)s`.

A Tx belongs to one task: statements run one after the other.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from memoryos_core.errors import InternalError
from psycopg import AsyncConnection, AsyncCopy, AsyncCursor
from psycopg.pq import TransactionStatus

from memoryos_postgres.errors import translated

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

    def __init__(self, connection: AsyncConnection[Row], prelude: Statement | None) -> None:
        self._connection = connection
        self._prelude = prelude
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
            cursor = self._connection.cursor(binary=binary)
            if self._begun:
                await cursor.execute(query.encode(), params)
                return cursor
            async with self._connection.pipeline():
                await self._send_begin()
                await cursor.execute(query.encode(), params)
            return cursor

    async def _begin(self) -> None:
        if not self._begun:
            async with self._connection.pipeline():
                await self._send_begin()

    async def _send_begin(self) -> None:
        self._begun = True
        await self._connection.execute("BEGIN", prepare=False)
        if self._prelude is not None:
            query, params = self._prelude
            await self._connection.execute(query.encode(), params)

    async def _commit(self) -> None:
        if not self._begun and not self._deferred:
            self._committed()
            return
        if self._begun and self._connection.info.transaction_status != TransactionStatus.INTRANS:
            raise NotCommitted
        with translated():
            async with self._connection.pipeline():
                if not self._begun:
                    await self._send_begin()
                for query, params in self._deferred:
                    await self._connection.execute(query.encode(), params)
                end = await self._connection.execute("COMMIT", prepare=False)
        if end.statusmessage != "COMMIT":  # the server answers ROLLBACK, without an error, to a failed transaction
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
