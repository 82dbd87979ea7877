"""Presence on PostgreSQL: a session lock that the server frees in the instant the process dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import psycopg
from psycopg import AsyncConnection

from memoryos_harness.adapters.task_rows import QUERIES

RECONNECT_S: Final = 0.2
_LOG: Final = logging.getLogger(__name__)


class PostgresPresence:
    """See `Presence`."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def shown(self, holder: str) -> AsyncIterator[None]:
        """See `Presence.shown`."""
        there = asyncio.Event()
        keeping = asyncio.create_task(self._keep(holder, there))
        waiting = asyncio.create_task(there.wait())
        try:
            await asyncio.wait({keeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
            yield
        finally:
            keeping.cancel()
            waiting.cancel()
            await asyncio.gather(keeping, waiting, return_exceptions=True)

    async def _keep(self, holder: str, there: asyncio.Event) -> None:
        while True:
            try:
                await self._hold(holder, there)
            except psycopg.OperationalError:
                _LOG.warning("presence interrupted")
            await asyncio.sleep(RECONNECT_S)

    async def _hold(self, holder: str, there: asyncio.Event) -> None:
        async with await AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            await connection.execute(QUERIES["show_presence"].encode(), {"holder": holder})
            there.set()
            async for _ in connection.notifies():  # none come: it ends with the connection
                continue
