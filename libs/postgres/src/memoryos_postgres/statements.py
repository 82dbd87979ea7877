"""Statements of one transaction: run, fetched, copied; the first one begins it.

Rows are dicts. Parameters are `%s` or `%(name)s`. Every statement is prepared
(see together.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.pq.abc import PGresult

from memoryos_postgres.errors import translated
from memoryos_postgres.together import Params, Statement, copy_whole, rows_of, run_together

Row = dict[str, Any]
COMMIT: Final = Statement("COMMIT")
_BEGIN: Final = Statement("BEGIN")
_LOCK: Final = "SELECT count(pg_advisory_xact_lock(k)) FROM unnest(%(keys)s::int8[]) AS k"


class Statements:
    """What can be asked inside a transaction. Driver errors come out translated."""

    def __init__(self, connection: AsyncConnection[Row], settings: Mapping[str, str]) -> None:
        self._connection = connection
        self._settings = {f"memoryos.{name}": value for name, value in settings.items()}
        self._begun = False
        self._deferred: list[Statement] = []
        self._last: dict[str, Statement] = {}
        self._next: dict[str, str | None] = {}
        self._planned: dict[str, str | None] = {}

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
            # Without BEGIN what is sent together is one transaction.
            statements = [*self._set(), Statement(query, params, binary)]
            results = await run_together(self._connection, statements)
            return rows_of(self._connection, results[-1])

    async def fetch_planned(
        self, settings: Mapping[str, str], query: str, params: Params = None, *, binary: bool = False
    ) -> list[Row]:
        """All rows of a statement that is planned under `settings`, which end with it: one round trip.

        For the few statements whose plan must not be the planner's choice.
        """
        with translated():
            before, after = [*self._opening(), _setting(settings)], _setting(dict.fromkeys(settings))
            results = await run_together(self._connection, [*before, Statement(query, params, binary), after])
            return rows_of(self._connection, results[len(before)])

    async def set_local(self, settings: Mapping[str, str]) -> None:
        """Set session parameters until the transaction ends; costs no round trip before its first statement."""
        if not self._begun:
            self._settings.update(settings)
            return
        await self._run(_setting(settings))

    def set_next(self, settings: Mapping[str, str | None]) -> None:
        """Set session parameters from the next statement on, until the transaction ends; None: the session's own value.

        They travel with that statement.
        """
        for name, value in settings.items():
            if self._planned.get(name) == value:
                self._next.pop(name, None)
            else:
                self._next[name] = value

    async def fetch_guarded(self, locks: Sequence[int], query: str, params: Params = None) -> list[Row]:
        """All rows of a read as committed once these advisory locks are held: one round trip.

        They are taken in the order given and end with the transaction. The read sees what
        was committed while it waited for them.
        """
        with translated():
            lock = Statement(_LOCK, {"keys": "{" + ",".join(map(str, locks)) + "}"})
            results = await run_together(self._connection, [*self._opening(), lock, Statement(query, params)])
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

    async def copy_whole(self, query: str, stream: bytes) -> int:
        """COPY … FROM STDIN (FORMAT binary) of rows at hand (see copy_binary); gives their number."""
        with translated():
            await self._begin()
            return await copy_whole(self._connection, query, stream)

    async def _run(self, statement: Statement) -> PGresult:
        with translated():
            return (await run_together(self._connection, [*self._opening(), statement]))[-1]

    async def _begin(self) -> None:
        opening = self._opening()
        if opening:
            await run_together(self._connection, opening)

    def _opening(self) -> list[Statement]:
        """Give what goes before a statement: at first BEGIN and the settings that last until its end."""
        opening = []
        if not self._begun:
            self._begun, self._planned = True, {}
            opening = [_BEGIN, *self._set()]
        if self._next:
            opening.append(_setting(self._next))
            self._planned |= self._next
            self._next = {}
        return opening

    def _set(self) -> list[Statement]:
        return [_setting(self._settings)] if self._settings else []


def _setting(settings: Mapping[str, str | None]) -> Statement:
    """Give the statement that sets parameters until the end of the transaction; None: to the session's own value."""
    calls = ", ".join(f"set_config('{name}', %s, true)" for name in settings)
    return Statement(f"SELECT {calls}", tuple(settings.values()))
