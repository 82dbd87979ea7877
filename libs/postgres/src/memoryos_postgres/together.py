"""Statements sent together: prepared on the server, in one round trip, with as little Python as can be.

psycopg dumps the parameters and waits for the socket; what lies between is done
here on libpq. A statement is prepared under its text and the types of its
parameters when a connection first meets it, and from then on bound and executed
only. Measured on a Write of five rows: half of the server's CPU time, and a
quarter of ours, against one text with literals.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection, Error
from psycopg.abc import PQGen
from psycopg.abc import Transformer as Dumping
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import OperationalError, error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

Params = Sequence[Any] | Mapping[str, Any] | None
PREPARED_MAX: Final = 1_000
"""Statements prepared on one connection; further ones are parsed each time."""

_CANCEL_S: Final = 5.0
_CHUNK_BYTES: Final = 256 * 1024
_PLACEHOLDER: Final = re.compile(rb"%(?:\((\w+)\))?([sbt%])")
_FORMATS: Final = {b"s": PyFormat.AUTO, b"b": PyFormat.BINARY, b"t": PyFormat.TEXT}
_Key = tuple[bytes, tuple[int, ...]]
"""Text and parameter types of a statement."""


class _Prepared:
    """What one connection has prepared."""

    def __init__(self) -> None:
        self.names: dict[_Key, bytes] = {}
        self._count = 0

    def add(self, key: _Key) -> bytes:
        """Give the name under which `key` is prepared next; no name comes twice."""
        self._count += 1
        name = self.names[key] = b"mo_%d" % self._count
        return name

    def forget(self, keys: Sequence[_Key]) -> None:
        """Prepare these again next time."""
        for key in keys:
            self.names.pop(key, None)


_prepared: WeakKeyDictionary[AsyncConnection[Any], _Prepared] = WeakKeyDictionary()


class Statement(NamedTuple):
    """A statement with its parameters; `binary` asks for the binary form of its rows."""

    query: str
    params: Params = None
    binary: bool = False


class _Shape(NamedTuple):
    """A query as libpq takes it."""

    text: bytes
    names: tuple[str, ...]
    """Parameters by number; empty names where they come in order."""
    formats: list[PyFormat]


@lru_cache(maxsize=4_096)
def _shape(query: str) -> _Shape:
    """Number the placeholders: one that comes again with its name has one number."""
    numbers: dict[tuple[bytes, bytes], int] = {}
    found: list[tuple[str, PyFormat]] = []

    def numbered(match: re.Match[bytes]) -> bytes:
        name, form = match[1] or b"", match[2]
        if form == b"%":
            return b"%"
        key = (name, form)
        if not name or key not in numbers:
            found.append((name.decode(), _FORMATS[form]))
            numbers[key] = len(found)
        return b"$%d" % numbers[key]

    text = _PLACEHOLDER.sub(numbered, query.encode())
    return _Shape(text, tuple(name for name, _ in found), [form for _, form in found])


async def run_together(connection: AsyncConnection[Any], statements: Sequence[Statement]) -> list[PGresult]:
    """Give the result of each statement; raises psycopg's error of the first that failed, and no later one ran."""
    pgconn = connection.pgconn
    if pgconn.status != ConnStatus.OK:
        raise OperationalError("the connection is closed")
    known = _prepared.get(connection)
    if known is None:
        known = _prepared[connection] = _Prepared()
    # Of the connection: without one libpq escapes bytes for servers of long ago. One for all that go together.
    dumping: Dumping = Transformer(connection)
    fresh: list[_Key] = []
    wanted: list[int] = []
    """Places of the statements' results among all; the others are of Prepare."""
    pgconn.enter_pipeline_mode()
    try:
        for statement in statements:
            fresh += _send(connection.pgconn, statement, known, dumping)
            wanted.append(len(wanted) + len(fresh))
        pgconn.pipeline_sync()
        results = await _answered(connection)
    except BaseException:
        known.forget(fresh)
        raise
    finally:
        _leave(pgconn)
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            known.forget(fresh)  # those behind it were not prepared
            raise error_from_result(result, encoding="utf-8")
    return [results[place] for place in wanted]


async def copy_whole(connection: AsyncConnection[Any], query: str, stream: bytes) -> int:
    """Run COPY … FROM STDIN with all of its data at hand; give the number of rows."""
    pgconn = connection.pgconn
    pgconn.send_query_params(query.encode(), None)
    result = await connection.wait(_copying(pgconn, stream))
    if result.status != ExecStatus.COMMAND_OK:
        raise error_from_result(result, encoding="utf-8")
    return result.command_tuples or 0


def rows_of(connection: AsyncConnection[Any], result: PGresult) -> list[dict[str, Any]]:
    """Give the rows of a result by name."""
    count = result.ntuples
    if not count:
        return []
    transformer = Transformer(connection)
    transformer.set_pgresult(result)
    names = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
    return transformer.load_rows(0, count, lambda values: dict(zip(names, values, strict=True)))


def _send(pgconn: PGconn, statement: Statement, known: _Prepared, dumping: Dumping) -> list[_Key]:
    """Send one statement, prepared before if it is new; give it then."""
    shape = _shape(statement.query) if statement.params is not None else _Shape(statement.query.encode(), (), [])
    values, types, formats = _dumped(dumping, shape, statement.params)
    rows = Format.BINARY if statement.binary else Format.TEXT
    key = (shape.text, types)
    name = known.names.get(key)
    if name is not None:
        pgconn.send_query_prepared(name, values, formats, rows)
        return []
    if len(known.names) >= PREPARED_MAX:
        pgconn.send_query_params(shape.text, values, types, formats, rows)
        return []
    name = known.add(key)
    pgconn.send_prepare(name, shape.text, types)
    pgconn.send_query_prepared(name, values, formats, rows)
    return [key]


def _dumped(
    transformer: Dumping, shape: _Shape, params: Params
) -> tuple[Sequence[Any] | None, tuple[int, ...], Sequence[Format] | None]:
    if not shape.formats or params is None:
        return None, (), None
    values = [params[name] for name in shape.names] if isinstance(params, Mapping) else params
    dumped = transformer.dump_sequence(values, shape.formats)
    return dumped, transformer.types or (), transformer.formats


async def _answered(connection: AsyncConnection[Any]) -> list[PGresult]:
    """Give the results up to the end of the pipeline, read as they come.

    The driver's own wait makes an event, a timer and two calls of epoll for every piece
    that arrives; this one two calls for all of them.
    """
    pgconn = connection.pgconn
    if pgconn.flush():
        await connection.wait(_flushed(pgconn))
    results: list[PGresult] = []
    if _taken(pgconn, results):  # libpq reads while it sends, where much is sent
        return results
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        try:
            if done.done():  # its caller has just gone away, and reads the rest itself
                return
            pgconn.consume_input()
            if _taken(pgconn, results):
                done.set_result(None)
        except Exception as error:
            done.set_exception(error)

    socket = pgconn.socket
    loop.add_reader(socket, read)
    try:
        await done
    except asyncio.CancelledError:
        if not done.cancelled():  # the end was there already
            raise
        loop.remove_reader(socket)
        with suppress(Error):
            await connection.cancel_safe(timeout=_CANCEL_S)
            await connection.wait(_exchange(pgconn, results))
        raise
    finally:
        loop.remove_reader(socket)
    return results


def _taken(pgconn: PGconn, results: list[PGresult]) -> bool:
    """Take the results that are there; tell whether that is all of the pipeline."""
    while not pgconn.is_busy():
        result = pgconn.get_result()
        if result is None:
            if pgconn.status != ConnStatus.OK:
                raise OperationalError("the connection was lost")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            return True
        else:
            results.append(result)
    return False


def _flushed(pgconn: PGconn) -> PQGen[None]:
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()


def _next(pgconn: PGconn) -> PQGen[PGresult | None]:
    while pgconn.is_busy():
        yield Wait.R
        pgconn.consume_input()
    return pgconn.get_result()


def _copying(pgconn: PGconn, stream: bytes) -> PQGen[PGresult]:
    """Send a COPY and its data; give the result that says how it ended."""
    yield from _flushed(pgconn)
    last = yield from _next(pgconn)
    if last is not None and last.status == ExecStatus.COPY_IN:
        for start in range(0, len(stream), _CHUNK_BYTES):
            pgconn.put_copy_data(stream[start : start + _CHUNK_BYTES])
            yield from _flushed(pgconn)
        pgconn.put_copy_end()
        yield from _flushed(pgconn)
        last = yield from _next(pgconn)
    if last is None:
        raise OperationalError("the connection was lost")
    while (yield from _next(pgconn)) is not None:
        pass
    return last


def _exchange(pgconn: PGconn, results: list[PGresult]) -> PQGen[None]:
    """Read results up to the end of the pipeline."""
    while not _taken(pgconn, results):
        yield Wait.R
        pgconn.consume_input()


def _leave(pgconn: PGconn) -> None:
    """End the pipeline. Where its results are not all read the connection stays busy, and its transaction closes it."""
    if pgconn.status != ConnStatus.OK or pgconn.pipeline_status == PipelineStatus.OFF:
        return
    with suppress(Error):
        while not pgconn.is_busy() and pgconn.get_result() is not None:
            pass
        pgconn.exit_pipeline_mode()
