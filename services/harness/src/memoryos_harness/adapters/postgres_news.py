"""TaskNews over LISTEN/NOTIFY: one connection of the process for all watchers."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import psycopg
from psycopg import AsyncConnection, sql

from memoryos_harness.adapters.task_rows import NEWS_CHANNEL, news_payload

RECONNECT_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class Signal:
    """See `NewsSignal`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Say that something happened."""
        self._event.set()

    def clear(self) -> None:
        """See `NewsSignal.clear`."""
        self._event.clear()

    async def wait(self, timeout_s: float) -> None:
        """See `NewsSignal.wait`."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout_s)
        except TimeoutError:
            return


class PostgresNews:
    """See `TaskNews`. `listen` runs as long as the process; without it watchers still look every second."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._signals: defaultdict[str, set[Signal]] = defaultdict(set)

    @asynccontextmanager
    async def of(self, tenant: str, task_id: str) -> AsyncIterator[Signal]:
        """See `TaskNews.of`."""
        key = news_payload(tenant, task_id)
        signal = Signal()
        self._signals[key].add(signal)
        try:
            yield signal
        finally:
            self._signals[key].discard(signal)
            if not self._signals[key]:
                del self._signals[key]

    async def listen(self) -> None:
        """Pass notifications on until cancelled; a lost connection is made again."""
        while True:
            try:
                await self._listen_once()
            except psycopg.OperationalError:
                _LOG.warning("notifications interrupted")
            await asyncio.sleep(RECONNECT_S)

    async def _listen_once(self) -> None:
        async with await AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(NEWS_CHANNEL)))
            for signals in self._signals.values():  # what happened while nobody listened
                for signal in signals:
                    signal.set()
            async for notice in connection.notifies():
                for signal in self._signals.get(notice.payload, ()):
                    signal.set()
