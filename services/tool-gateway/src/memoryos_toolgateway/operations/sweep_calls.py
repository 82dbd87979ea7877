"""Make UNKNOWN of calls whose sender was not heard of until their deadline."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from memoryos_core.errors import MemoryOSError

from memoryos_toolgateway.ports import Journal

BATCH_MAX: Final = 100
_log = logging.getLogger(__name__)


async def sweep_calls(journal: Journal, interval_s: float) -> None:
    """Sweep until cancelled; any number of replicas may do so at once."""
    while True:
        try:
            expired = await journal.expire(BATCH_MAX)
        except MemoryOSError as error:
            expired = 0
            _log.warning("calls not swept", extra={"reason": error.reason})
        if expired:
            _log.info("calls became unknown", extra={"count": expired})
        if expired < BATCH_MAX:
            await asyncio.sleep(interval_s)
