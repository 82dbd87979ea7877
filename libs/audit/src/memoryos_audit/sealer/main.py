"""Composition of the sealer process; the only reader of its environment."""

import asyncio
import logging
import os
import signal
from pathlib import Path

from memoryos_core.clock import SystemClock
from memoryos_core.config import load
from memoryos_core.sections import ALL_SECTIONS
from memoryos_postgres import Database, PostgresSection, roles
from memoryos_telemetry import TelemetrySection, configure

from memoryos_audit.seal_key import PublicSealKeys, SealKey, create_seal_key, public_file
from memoryos_audit.sealer.config import AuditSection
from memoryos_audit.sealer.sealer import ChainBroken, Sealer

_log = logging.getLogger(__name__)
EXIT_CHAIN_BROKEN = 3


async def run() -> int:
    """Seal until SIGTERM or SIGINT; gives the exit code."""
    file = os.environ.get("MEMORYOS_CONFIG")
    config = load(
        [PostgresSection, AuditSection, TelemetrySection],
        file=Path(file) if file else None,
        environ=os.environ,
        known=ALL_SECTIONS,
    )
    telemetry = configure(config[TelemetrySection], "audit-sealer", SystemClock())
    section = config[AuditSection]
    create_seal_key(section.seal_key_file)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    postgres = config[PostgresSection].model_copy(update={"pool_size": 1})
    try:
        async with Database(postgres, roles.SEALER) as database:
            key, keys = SealKey.load(section.seal_key_file), PublicSealKeys.load(public_file(section.seal_key_file))
            sealer = Sealer(database, key, keys, section.head_file)
            await sealer.run(stop, section.seal_interval_s)
    except ChainBroken:
        _log.critical("the audit chain was tampered with: run `mos audit verify`", exc_info=True)
        return EXIT_CHAIN_BROKEN
    finally:
        telemetry.shutdown()
    return 0


def main() -> int:
    """Entry point."""
    return asyncio.run(run())
