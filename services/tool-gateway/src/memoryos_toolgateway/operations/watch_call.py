"""Stream one call whenever it changes state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from memoryos_core.errors import LimitExceeded
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import FINAL, Call
from memoryos_toolgateway.operations.get_call import get_call
from memoryos_toolgateway.ports import Journal

POLL_S_FIRST: Final = 0.05
POLL_S_MAX: Final = 1.0


@dataclass(slots=True, kw_only=True)
class CallWatch:
    """Watches calls, a bounded number at once and each for a bounded time."""

    journal: Journal
    seconds_max: float = 300.0
    at_once_max: int = 256
    watching: int = 0

    async def run(self, scope: Scope, call_id: str) -> AsyncIterator[Call]:
        """Give the call as it stands now and after every change, until nothing can follow or the time is up.

        A call of unknown outcome can still be settled, so it is watched on.
        Raises CallNotFound, and LimitExceeded when too many are watched.
        """
        if self.watching >= self.at_once_max:
            raise LimitExceeded(metadata={"limit": "calls_watched", "maximum": str(self.at_once_max)}, retry_after_s=5)
        self.watching += 1
        try:
            async for call in self._changes(scope, call_id):
                yield call
        finally:
            self.watching -= 1

    async def _changes(self, scope: Scope, call_id: str) -> AsyncIterator[Call]:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.seconds_max
        seen: tuple[str, int, str] | None = None
        pause_s = POLL_S_FIRST
        while True:
            call = await get_call(self.journal, scope, call_id)
            now = (call.state.value, call.dispatches, call.review_id)
            if now != seen:
                seen, pause_s = now, POLL_S_FIRST
                yield call
            if call.state in FINAL or loop.time() + pause_s > until:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, POLL_S_MAX)
