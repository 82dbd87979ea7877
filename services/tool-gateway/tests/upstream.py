"""A real HTTP upstream on loopback that counts what was really done and can misbehave on demand."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

SECRET = "Bearer sk-upstream-0123456789"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Upstream:
    """Paths are /{behaviour}/{name}; the effect of `name` is counted where the behaviour has one.

    ok: does it · drop: does it, then hangs up · lost: does nothing and hangs up · hang: does it, never answers ·
    status-NNN: does nothing, answers NNN and a secret · fault-NNN: does it, answers NNN ·
    redirect: does nothing, sends elsewhere · big: does it, answers with much text ·
    mirror: answers with headers and path · say: answers with `says` · away: does nothing, sends to `location` ·
    half: does it, hangs up within the answer · flaky: does it, hangs up the first time ·
    keyed: does it once per idempotency key, hangs up the first time · echo: answers with its body ·
    gone: does it and hangs up, then knows it no more · tickets: a ticket, looked up ·
    gate: waits until `gate` is set, then does it · known: tells whether the effect is there.
    """

    port: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    requests: list[Request] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    tickets: dict[str, dict[str, Any]] = field(default_factory=dict)
    location: str = ""
    says: bytes = b"{}"
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            self.requests.append(request)
            self.arrived.set()
            await self._answer(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        except asyncio.CancelledError:
            pass  # the test ends before this request does
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        behaviour, _, name = request.path.split("?")[0][1:].partition("/")
        kind, _, number = behaviour.partition("-")
        match kind:
            case "ok" | "big" | "half" | "drop" | "hang" | "fault" | "flaky":
                self.effects[name] += 1
            case "keyed":
                key = request.headers.get("idempotency-key", "")
                self.effects[name] += key not in self.keys
                if key not in self.keys:
                    self.keys.add(key)
                    return
            case "gate":
                await self.gate.wait()
                self.effects[name] += 1
            case "gone" if name not in self.effects:
                self.effects[name] += 1
                return
            case "gone":
                await send_response(writer, 404, b"{}")
                return
        if kind in ("drop", "lost") or (kind == "flaky" and self.effects[name] == 1):
            return
        if kind == "hang":
            await asyncio.sleep(3600)
        if kind in ("status", "fault"):
            await send_response(writer, int(number), json.dumps({"error": SECRET}).encode())
        elif kind == "redirect":
            await send_response(writer, 302, b"", [f"location: http://{self.address}/ok/{name}"])
        elif kind == "mirror":
            await send_response(writer, 200, json.dumps(request.headers | {"path": request.path}).encode())
        elif kind == "say":
            await send_response(writer, 200, self.says)
        elif kind == "away":
            await send_response(writer, 302, b"", [f"location: {self.location}"])
        elif kind == "big":
            await send_response(writer, 200, json.dumps({"text": "数据" * 500_000}).encode())
        elif kind == "half":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")
            await writer.drain()
        elif kind == "known":
            await send_response(writer, 200, json.dumps({"known": self.effects[name] > 0}).encode())
        elif kind == "echo":
            await send_response(writer, 200, request.body)
        elif kind == "tickets" and request.method == "GET":
            ticket = self.tickets.get(name)
            await send_response(writer, 200 if ticket else 404, json.dumps(ticket or {}).encode())
        elif kind == "tickets":
            self.effects[name] += 1
            await send_response(writer, 200, b"{}")
        else:
            await send_response(writer, 200, json.dumps({"done": name, "times": self.effects[name]}).encode())


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


async def send_response(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: list[str] | None = None
) -> None:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *(headers or [])]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()


@asynccontextmanager
async def serving_upstream(port: int) -> AsyncIterator[Upstream]:
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", port)
    upstream.port = port
    try:
        yield upstream
    finally:
        server.close()
