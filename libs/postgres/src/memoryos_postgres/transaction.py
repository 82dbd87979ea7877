"""Tx: one transaction, in few round trips.

`BEGIN` and the scope travel with the first statement; `defer`red statements and
`COMMIT` travel together. A Tx belongs to one task: statements run one after the
other (see statements.py).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from memoryos_core.errors import InternalError
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from memoryos_postgres.errors import translated
from memoryos_postgres.statements import COMMIT, Row, Statements
from memoryos_postgres.together import Params, Statement, rows_of, run_together

__all__ = ["NotCommitted", "Row", "Statement", "Tx"]


class NotCommitted(InternalError):
    """The transaction had failed before its end, so nothing of it was kept."""


class Tx(Statements):
    """A transaction inside `async with db.scoped(scope) as tx`.

    Driver errors come out translated. After an error only leaving the block
    (or the `savepoint` block around it) helps.
    """

    def __init__(self, connection: AsyncConnection[Row], settings: Mapping[str, str]) -> None:
        super().__init__(connection, settings)
        self._on_commit: list[Callable[[], None]] = []
        self.local: dict[str, Any] = {}
        """What lives as long as the transaction, by owner; e.g. keys made here and not yet committed."""

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A block that can fail on its own: an error inside undoes the block only, and goes on to the caller."""
        with translated():
            await self._begin()
            async with self._connection.transaction():
                yield

    def defer(self, query: str, params: Params = None) -> None:
        """Run a statement right before COMMIT, in the same round trip. Its error undoes the transaction."""
        self._deferred.append(Statement(query, params))

    def defer_last(self, query: str, params: Params = None) -> None:
        """Run a statement after all that is deferred, once however often it is asked for; the newest parameters count.

        For what locks rows that others lock in another order: behind it this transaction waits for nobody.
        """
        self._last[query] = Statement(query, params)

    async def run_deferred(self) -> None:
        """Run what was deferred now, where what follows has to find it done."""
        if not self._deferred:
            return
        with translated():
            statements, self._deferred = self._deferred, []
            await run_together(self._connection, [*self._opening(), *statements])

    async def fetch_last(self, query: str, params: Params = None, *, binary: bool = False) -> list[Row]:
        """All rows of a read that ends the transaction: what was deferred, and COMMIT, travel with it.

        Statements that follow begin another transaction of the same scope.
        """
        with translated():
            before = self._opening()
            statements = [*before, Statement(query, params, binary), *self._deferred, *self._last.values(), COMMIT]
            results = await run_together(self._connection, statements)
        if results[-1].command_status != b"COMMIT":
            raise NotCommitted
        self._begun, self._planned, self._deferred, self._last = False, {}, [], {}
        self._committed()
        return rows_of(self._connection, results[len(before)])

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is committed; never when it is not."""
        self._on_commit.append(callback)

    async def connection(self) -> AsyncConnection[Row]:
        """The psycopg connection inside the begun transaction, for what Tx does not offer."""
        with translated():
            await self._begin()
        return self._connection

    async def _commit(self) -> None:
        deferred = [*self._deferred, *self._last.values()]
        if not self._begun and not deferred:
            self._committed()
            return
        if self._begun and self._connection.info.transaction_status != TransactionStatus.INTRANS:
            raise NotCommitted
        if not deferred:
            self._next = {}
        with translated():
            results = await run_together(self._connection, [*self._opening(), *deferred, COMMIT])
        if results[-1].command_status != b"COMMIT":  # the server answers ROLLBACK, without an error, to a failed one
            raise NotCommitted
        self._committed()

    def _committed(self) -> None:
        callbacks, self._on_commit = self._on_commit, []
        for callback in callbacks:
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
