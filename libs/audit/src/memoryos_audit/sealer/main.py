"""Composition of the sealer process; the only reader of its environment."""

import asyncio
import logging
import os
from typing import Final

from memoryos_core.clock import SystemClock
from memoryos_core.config import Config
from memoryos_core.process import run_process
from memoryos_postgres import Database, PostgresSection, roles
from memoryos_telemetry import TelemetrySection, configure

from memoryos_audit.seal_key import PublicSealKeys, SealKey, create_seal_key, public_file
from memoryos_audit.sealer.config import AuditSection
from memoryos_audit.sealer.sealer import ChainBroken, Sealer

_log = logging.getLogger(__name__)
EXIT_CHAIN_BROKEN = 3
SECTIONS: Final = (PostgresSection, AuditSection, TelemetrySection)


async def seal_until(config: Config, stop: asyncio.Event) -> int:
    """Seal until `stop` is set; gives the exit code."""
    telemetry = configure(config[TelemetrySection], "audit-sealer", SystemClock())
    section = config[AuditSection]
    create_seal_key(section.seal_key_file)
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
    """Seal until SIGTERM or SIGINT; gives the exit code."""
    return asyncio.run(run_process(os.environ, SECTIONS, seal_until))
