"""`python -m memoryos_memoryfs.upkeep`: gives big tenants an approximate index of their own, as memoryos_indexer.

A process apart from the service: it takes no calls, and what it may do (make
and drop indexes of the one table that its role owns) no process that takes
calls may. Several may run; one works at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress

import psycopg
from memoryos_core.clock import SystemClock
from memoryos_core.config import Config
from memoryos_core.process import run_process
from memoryos_postgres import PostgresSection, roles
from memoryos_telemetry import TelemetrySection, configure
from memoryos_vectors.adapters.pgvector_upkeep import AnnUpkeep
from memoryos_vectors.config import PgVectorSection

SECTIONS = (PostgresSection, PgVectorSection, TelemetrySection)
_log = logging.getLogger(__name__)


async def keep_up(config: Config, stop: asyncio.Event) -> None:
    """Look after the indexes every `pgvector.upkeep_s` until `stop` is set; a build that runs then is abandoned."""
    telemetry = configure(config[TelemetrySection], "memoryfs-upkeep", SystemClock())
    section = config[PgVectorSection]
    try:
        while not stop.is_set():
            round_ = asyncio.create_task(_round(config[PostgresSection].dsn(roles.INDEXER), section))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({round_, stopping}, return_when=asyncio.FIRST_COMPLETED)
            round_.cancel()
            try:
                await round_
            except asyncio.CancelledError:
                pass
            except psycopg.Error:
                _log.exception("the upkeep of indexes failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping, section.upkeep_s)
    finally:
        telemetry.shutdown()


async def _round(dsn: str, section: PgVectorSection) -> None:
    async with await psycopg.AsyncConnection.connect(
        dsn, autocommit=True, prepare_threshold=None, connect_timeout=5
    ) as connection:
        await AnnUpkeep(connection, section).run_once()


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    asyncio.run(run_process(os.environ, SECTIONS, keep_up))


if __name__ == "__main__":
    main()
