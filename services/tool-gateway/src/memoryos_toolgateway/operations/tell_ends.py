"""Tell people of calls that have ended, as policy asked: at least once, and not for ever."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import MemoryOSError

from memoryos_toolgateway.ports import Notifier, Outbox, Told

BATCH_MAX: Final = 20
TRIES_MAX: Final = 12
PAUSE_S_MAX: Final = 600.0
_log = logging.getLogger(__name__)


async def tell_ends(outbox: Outbox, notifier: Notifier, interval_s: float) -> None:
    """Send what is due until cancelled; any number of replicas may do so at once."""
    while True:
        found = 0
        try:
            told = await outbox.due(BATCH_MAX)
            found = len(told)
            for notice in told:
                await _tell(outbox, notifier, notice)
        except MemoryOSError as error:
            _log.warning("notices not sent", extra={"reason": error.reason})
        if found < BATCH_MAX:
            await asyncio.sleep(interval_s)


async def _tell(outbox: Outbox, notifier: Notifier, told: Told) -> None:
    arrived = await notifier.notify(told.channel, _text(told))
    crash_point("gateway.notice.after_send")
    if arrived or told.tries >= TRIES_MAX:
        if not arrived:
            _log.error("notice given up", extra={"call_id": told.call_id, "channel": told.channel})
        await outbox.done(told)
    else:
        await outbox.later(told, min(2.0**told.tries, PAUSE_S_MAX))


def _text(told: Told) -> str:
    """Give what is said: the rule's sentence, and which call it is about."""
    about = f"{told.skill} {told.state} {told.call_id}"
    return f"{told.text}\n{about}" if told.text else about
