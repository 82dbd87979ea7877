"""The least that an upstream can be, in a process of its own: `python -m bench.upstream PORT_FILE`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

_ANSWER: Final = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"done": 1}'
_LENGTH: Final = b"content-length: "


class _Answering(asyncio.Protocol):
    """Answers each request on a connection, once it is there with its body."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        _, found, length = head.lower().partition(_LENGTH)
        if found and len(body) < int(length.split(b"\r\n")[0]):
            return
        self._data = b""
        self._transport.write(_ANSWER)


@asynccontextmanager
async def upstream(folder: Path) -> AsyncIterator[str]:
    """Run the upstream and give its host:port."""
    port_file = folder / "upstream.port"
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.upstream", str(port_file))
    try:
        async with asyncio.timeout(30):
            while not port_file.exists():  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.02)
        yield f"127.0.0.1:{port_file.read_text(encoding='ascii')}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _serve(port_file: Path) -> None:
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0)
    part = port_file.with_suffix(".part")
    part.write_text(str(server.sockets[0].getsockname()[1]), encoding="ascii")
    part.rename(port_file)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
