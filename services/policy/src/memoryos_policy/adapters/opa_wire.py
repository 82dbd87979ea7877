"""HTTP/1.1 to one server, as little of it as a question and its answer need: kept connections, capped bodies.

A general client spends four times the CPU on a question of a kilobyte. What is
not understood here ends the connection: no redirect, no compression, no
protocol but this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, SupportsIndex

from memoryos_policy.adapters.faults import Fault

HEAD_BYTES_MAX: Final = 16 * 1024
_BODYLESS: Final = ("204", "304")
_CONTENT_LENGTH: Final = "content-length"
_CHUNKED: Final = "transfer-encoding"
_ONCE: Final = frozenset({_CONTENT_LENGTH, _CHUNKED, "content-type", "connection"})
"""Headers that must not be there twice: they say where an answer ends, and what it is."""


class Unreachable(Exception):
    """Nobody takes connections at the address."""


class Closed(Exception):
    """The server hung up before it answered."""


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """One answer, whole."""

    status: int
    content_type: str
    body: bytes


class _Reader(asyncio.StreamReader):
    """A reader that knows whether anything has come that nobody took: it would be taken for the next answer."""

    left = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        taken = bytes(data)
        self.left += len(taken)
        super().feed_data(taken)

    async def readuntil(self, separator: Any = b"\n") -> bytes:
        taken = await super().readuntil(separator)
        self.left -= len(taken)
        return taken

    async def readexactly(self, n: int) -> bytes:
        taken = await super().readexactly(n)
        self.left -= len(taken)
        return taken


@dataclass(frozen=True, slots=True)
class _Connection:
    reader: _Reader
    writer: asyncio.StreamWriter

    @property
    def is_clean(self) -> bool:
        return not self.reader.left and not self.reader.at_eof() and not self.writer.is_closing()


class OpaWire:
    """Connections to one host and port. Whoever asks says how long it may take, by cancelling."""

    def __init__(self, host: str, port: int, body_bytes_max: int) -> None:
        self._host = host
        self._port = port
        self._body_bytes_max = body_bytes_max
        self._idle: list[_Connection] = []

    def close(self) -> None:
        """Hang up every connection that is not in use."""
        while self._idle:
            self._idle.pop().writer.transport.abort()

    async def post(self, target: str, headers: Mapping[str, str], body: bytes) -> WireAnswer:
        """Give the answer to a POST.

        Raises Unreachable, Closed, or Fault("not_http" | "too_large"). A
        connection whose answer was not read to its end is never used again.
        """
        connection = await self._connection()
        lines = [f"POST {target} HTTP/1.1", f"host: {self._host}:{self._port}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        kept = False
        try:
            connection.writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            answer, kept = await self._answer(connection.reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Closed from None
        except (asyncio.LimitOverrunError, ValueError):
            raise Fault("not_http") from None
        finally:
            if kept and connection.is_clean:
                self._idle.append(connection)
            else:
                connection.writer.transport.abort()
        return answer

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_clean:
                return connection
            connection.writer.transport.abort()
        loop = asyncio.get_running_loop()
        reader = _Reader(limit=HEAD_BYTES_MAX, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.create_connection(lambda: protocol, self._host, self._port)
        except OSError:
            raise Unreachable from None
        return _Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[WireAnswer, bool]:
        """Read one answer; tell whether the connection may be kept."""
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].decode("latin-1").split("\r\n")
        protocol, status, *_ = status_line.split(" ")  # one that has no status is a ValueError
        if protocol != "HTTP/1.1" or len(status) != 3 or not status.isdecimal():
            raise Fault("not_http")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip() or (name.lower() in headers and name.lower() in _ONCE):
                raise Fault("not_http")
            headers[name.lower()] = value.strip()
        if status in _BODYLESS:
            body = b""
        elif _CHUNKED in headers:
            if headers[_CHUNKED] != "chunked" or _CONTENT_LENGTH in headers:
                raise Fault("not_http")
            body = await self._chunks(reader)
        else:
            body = await reader.readexactly(self._length(headers.get(_CONTENT_LENGTH, ""), 10))
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        kept = headers.get("connection", "keep-alive").lower() == "keep-alive"
        return WireAnswer(int(status), content_type, body), kept

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = bytearray()
        while True:
            size = self._length((await reader.readuntil(b"\r\n"))[:-2].decode("latin-1"), 16)
            if len(body) + size > self._body_bytes_max:
                raise Fault("too_large")
            if not size:
                break
            body += await reader.readexactly(size)
            if await reader.readexactly(2) != b"\r\n":
                raise Fault("not_http")
        if await reader.readexactly(2) != b"\r\n":  # no trailers
            raise Fault("not_http")
        return bytes(body)

    def _length(self, text: str, base: int) -> int:
        if not (text.isascii() and text.isalnum() and len(text) <= 16):
            raise Fault("not_http")
        size = int(text, base)
        if size > self._body_bytes_max:
            raise Fault("too_large")
        return size
