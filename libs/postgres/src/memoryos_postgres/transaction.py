"""Tx: one transaction, in few round trips.

`BEGIN` and the scope travel with the first statement; `defer`red statements and
`COMMIT` travel together. Every statement is prepared (see together.py).

Rows are dicts. Parameters are `%s` or `%(name)s`. A Tx belongs to one task:
statements run one after the other.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from memoryos_core.errors import InternalError
from psycopg import AsyncConnection, AsyncCopy
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from memoryos_postgres.errors import translated
from memoryos_postgres.together import Params, Statement, copy_whole, rows_of, run_together

Row = dict[str, Any]
_BEGIN: Final = Statement("BEGIN")
_COMMIT: Final = Statement("COMMIT")
_LOCK: Final = "SELECT count(pg_advisory_xact_lock(k)) FROM unnest(%(keys)s::int8[]) AS k"


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
        return (await self._run(Statement(query, params))).command_tuples or 0

    async def fetch_one(self, query: str, params: Params = None, *, binary: bool = False) -> Row | None:
        """The first row, or None."""
        rows = await self.fetch_all(query, params, binary=binary)
        return rows[0] if rows else None

    async def fetch_all(self, query: str, params: Params = None, *, binary: bool = False) -> list[Row]:
        """All rows; `binary` asks for the binary form (fast for vectors and bytea)."""
        return rows_of(self._connection, await self._run(Statement(query, params, binary)))

    async def fetch_alone(self, query: str, params: Params = None, *, binary: bool = False) -> list[Row]:
        """All rows of a read that is a transaction by itself: one round trip, and nothing is open afterwards.

        Statements that follow begin a transaction of their own. Inside one that
        has begun this is `fetch_all`.
        """
        if self._begun or self._deferred:
            return await self.fetch_all(query, params, binary=binary)
        with translated():
            statements = [*self._opening(), Statement(query, params, binary), _COMMIT]
            results = await run_together(self._connection, statements)
            return rows_of(self._connection, results[-2])

    async def fetch_planned(
        self, settings: Mapping[str, str], query: str, params: Params = None, *, binary: bool = False
    ) -> list[Row]:
        """All rows of a statement that is planned under `settings`, which end with it: one round trip.

        For the few statements whose plan must not be the planner's choice.
        """
        with translated():
            opening = [] if self._begun else self._opening()
            self._begun = True
            before, after = [*opening, _setting(settings)], _setting(dict.fromkeys(settings))
            results = await run_together(self._connection, [*before, Statement(query, params, binary), after])
            return rows_of(self._connection, results[len(before)])

    async def set_local(self, settings: Mapping[str, str]) -> None:
        """Set session parameters until the transaction ends; costs no round trip before its first statement."""
        if not self._begun:
            self._settings.update(settings)
            return
        await self._run(_setting(settings))

    async def fetch_guarded(self, locks: Sequence[int], query: str, params: Params = None) -> list[Row]:
        """All rows of a read as committed once these advisory locks are held: one round trip.

        They are taken in the order given and end with the transaction. The read sees what
        was committed while it waited for them.
        """
        with translated():
            opening = [] if self._begun else self._opening()
            self._begun = True
            lock = Statement(_LOCK, {"keys": list(locks)})
            results = await run_together(self._connection, [*opening, lock, Statement(query, params)])
            return rows_of(self._connection, results[-1])

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

    async def copy_whole(self, query: str, stream: bytes) -> int:
        """COPY … FROM STDIN (FORMAT binary) of rows at hand (see copy_binary); gives their number."""
        with translated():
            await self._begin()
            return await copy_whole(self._connection, query, stream)

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

    async def run_deferred(self) -> None:
        """Run what was deferred now, where what follows has to find it done."""
        if not self._deferred:
            return
        with translated():
            opening = [] if self._begun else self._opening()
            self._begun = True
            statements, self._deferred = self._deferred, []
            await run_together(self._connection, [*opening, *statements])

    def on_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is committed; never when it is not."""
        self._on_commit.append(callback)

    async def connection(self) -> AsyncConnection[Row]:
        """The psycopg connection inside the begun transaction, for what Tx does not offer."""
        with translated():
            await self._begin()
        return self._connection

    async def _run(self, statement: Statement) -> PGresult:
        with translated():
            opening = [] if self._begun else self._opening()
            self._begun = True
            return (await run_together(self._connection, [*opening, statement]))[-1]

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            await run_together(self._connection, self._opening())

    def _opening(self) -> list[Statement]:
        """BEGIN, and the settings that last until its end."""
        return [_BEGIN, *([_setting(self._settings)] if self._settings else [])]

    async def _commit(self) -> None:
        if not self._begun and not self._deferred:
            self._committed()
            return
        if self._begun and self._connection.info.transaction_status != TransactionStatus.INTRANS:
            raise NotCommitted
        with translated():
            opening = [] if self._begun else self._opening()
            self._begun = True
            results = await run_together(self._connection, [*opening, *self._deferred, _COMMIT])
        if results[-1].command_status != b"COMMIT":  # the server answers ROLLBACK, without an error, to a failed one
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


def _setting(settings: Mapping[str, str | None]) -> Statement:
    """Give the statement that sets parameters until the end of the transaction; None: to the session's own value."""
    calls = ", ".join(f"set_config('{name}', %s, true)" for name in settings)
    return Statement(f"SELECT {calls}", tuple(settings.values()))
