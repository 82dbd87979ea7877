"""An upstream that counts what it has done, in a file that outlives it: `python acting_upstream.py PORT FILE SEED`.

POST /do/{name}, /keyed/{name}  does it, mostly, and answers, mostly; /keyed once for each idempotency key
GET /read/{name}                changes nothing
GET /known/{call}               tells whether it was done for this call
POST /notice                    takes a notice

Each line of the file is one effect, on the disk before it is answered: what, key, name. It draws how it
misbehaves: does it and hangs up, hangs up before, does it and says 500, refuses with 409, takes its time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

_WAYS = {"well": 84, "slow": 5, "done_unsaid": 4, "not_done": 3, "done_fault": 2, "refused": 2}
_SLOW_S = 0.15


class Upstream:
    """One process of it; what earlier ones did is in the file."""

    def __init__(self, file: Path, rng: random.Random) -> None:
        self._rng = rng
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._done = {key for what, key, _ in effects(file.read_bytes()) if what == "effect"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, or do not."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, path, _ = head[0].split(" ")
            answer = await self._answer(method, path, headers.get("idempotency-key", ""), body)
            if answer is not None:
                status, content = answer
                text = json.dumps(content).encode()
                writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, key: str, body: bytes) -> tuple[int, dict[str, object]] | None:
        _, what, *rest = path.split("/")
        if what == "notice":
            self._keep("notice", json.loads(body)["text"].split()[-1], "-")
            return 200, {}
        if what == "known":
            return 200, {"known": rest[0] in self._done}
        way = self._rng.choices(list(_WAYS), list(_WAYS.values()))[0]
        if way in ("not_done", "refused"):
            return (409, {}) if way == "refused" else None
        if way == "slow":
            await asyncio.sleep(_SLOW_S)  # an upstream that works on when its caller is dead
        if method == "POST" and not (what == "keyed" and key in self._done):
            self._keep("effect", key, rest[0])
            self._done.add(key)
        if way == "done_unsaid":
            return None
        return (500, {}) if way == "done_fault" else (200, {"done": rest[0]})

    def _keep(self, what: str, key: str, name: str) -> None:
        os.write(self._file, f"{what} {key} {name}\n".encode())
        os.fsync(self._file)


def effects(lines: bytes) -> list[tuple[str, str, str]]:
    """Give what whole lines say: what, key, name."""
    whole = lines[: lines.rfind(b"\n") + 1].decode().splitlines()
    return [(what, key, name) for what, key, name in (line.split(" ") for line in whole)]


async def main() -> None:
    """Serve until killed."""
    port, file, seed = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    server = await asyncio.start_server(Upstream(file, random.Random(seed)).serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
