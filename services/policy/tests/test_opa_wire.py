"""The wire to OPA against servers that speak HTTP badly: what is not whole and plain ends its connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from memoryos_policy.adapters.faults import Fault
from memoryos_policy.adapters.opa_wire import Closed, OpaWire, Unreachable
from memoryos_testing.opa import free_port

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n"
WHOLE = HEAD + b"Content-Length: 2\r\n\r\n{}"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"


@asynccontextmanager
async def wire_to(*answers: bytes) -> AsyncIterator[tuple[OpaWire, list[int]]]:
    """A wire to a server that gives these bytes, one after each question; and the questions per connection."""
    asked: list[int] = []
    turn = iter(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(0)
        number = len(asked) - 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(3)
                asked[number] += 1
                writer.write(next(turn))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, StopIteration, RuntimeError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = OpaWire("127.0.0.1", server.sockets[0].getsockname()[1], 100)
    try:
        yield wire, asked
    finally:
        wire.close()
        server.close()


async def ask(wire: OpaWire) -> tuple[int, str, bytes]:
    async with asyncio.timeout(5):
        answer = await wire.post("/x", {"authorization": "Bearer t"}, b"ask")
    return answer.status, answer.content_type, answer.body


async def test_connections_are_kept_for_the_next_question() -> None:
    async with wire_to(WHOLE, CHUNKED, WHOLE) as (wire, asked):
        for _ in range(3):
            assert await ask(wire) == (200, "application/json", b"{}")
        assert asked == [3]


@pytest.mark.parametrize(
    "left_over",
    [
        WHOLE + b"x",
        WHOLE + WHOLE,
        CHUNKED + b"\r\n",
        WHOLE.replace(b"Content-Length", b"Connection: close\r\nContent-Length"),
    ],
)
async def test_nothing_left_over_is_taken_for_the_next_answer(left_over: bytes) -> None:
    async with wire_to(left_over, WHOLE) as (wire, asked):
        assert (await ask(wire))[2] == b"{}"
        assert (await ask(wire))[2] == b"{}"
        assert asked == [1, 1]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n{}", "not_http"),
        (b"HTTP/1.1 abc OK\r\nContent-Length: 2\r\n\r\n{}", "not_http"),
        (b"HTTP/1.1\r\n\r\n", "not_http"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE, "not_http"),
        (HEAD + b"\r\n{}", "not_http"),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "not_http"),
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", "not_http"),
        (HEAD + b"Content-Length: -2\r\n\r\n{}", "not_http"),
        (HEAD + b"Content-Length: +2\r\n\r\n{}", "not_http"),
        (HEAD + b"Content-Length: 2x\r\n\r\n{}", "not_http"),
        (HEAD + b"Content-Length : 2\r\n\r\n{}", "not_http"),
        (HEAD + b"Content-Type: text/html\r\nContent-Length: 2\r\n\r\n{}", "not_http"),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n{}", "not_http"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\n\r\n", "not_http"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", "not_http"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx: y\r\n\r\n", "not_http"),
        (HEAD + b"x: " + b"y" * 20_000 + b"\r\n\r\n", "not_http"),
        (HEAD + b"Content-Length: 101\r\n\r\n", "too_large"),
        (HEAD + b"Content-Length: 9999999999999999\r\n\r\n", "too_large"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n", "too_large"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"32\r\n" + b"x" * 50 + b"\r\n33\r\n", "too_large"),
        (bytes(range(256)) * 100, "not_http"),
    ],
)
async def test_what_is_no_plain_answer_is_a_fault_and_ends_the_connection(raw: bytes, kind: str) -> None:
    async with wire_to(raw, WHOLE) as (wire, asked):
        with pytest.raises(Fault) as caught:
            await ask(wire)
        assert caught.value.kind == kind
        assert (await ask(wire))[2] == b"{}"
        assert asked == [1, 1]


async def test_a_connection_that_ends_early_is_said_so() -> None:
    async with wire_to() as (wire, _):
        with pytest.raises(Closed):
            await ask(wire)
    with pytest.raises(Unreachable):
        await ask(OpaWire("127.0.0.1", free_port(), 100))


async def test_what_a_caller_left_is_not_used_again() -> None:
    async with wire_to(HEAD, WHOLE) as (wire, asked):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await wire.post("/x", {}, b"ask")
        assert (await ask(wire))[2] == b"{}"
        assert asked == [1, 1]
