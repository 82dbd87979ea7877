"""A line between services and their database that tests cut and mend."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import yaml

from .world import World


class Line:
    """A line to the database that can be cut and mended: what goes through it meanwhile is lost."""

    def __init__(self, port: int) -> None:
        self._to, self._open = port, True
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def cut(self) -> None:
        """Break every connection and take no new one."""
        self._open = False
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """Take connections again."""
        self._open = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection through."""
        if not self._open:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        if not self._open:  # cut while it was being opened
            writer.transport.abort()
            far_writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer), return_exceptions=True)
        self._writers -= {writer, far_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def line_before(world: World) -> AsyncIterator[Line]:
    """Put a line between the database and the workers that are started from now on."""
    config = yaml.safe_load(world.config_file.read_text())
    line = Line(int(config["postgres"]["port"]))
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    world.config_file.write_text(yaml.safe_dump({**config, "postgres": {**config["postgres"], "port": line.port}}))
    try:
        yield line
    finally:
        line.mend()
        server.close()
