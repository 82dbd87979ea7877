"""Third: no call runs longer than its caller waits, nor longer than the server allows."""

from __future__ import annotations

import asyncio

from memoryos_core.errors import DeadlineExceeded, DependencyUnavailable, LimitExceeded

from memoryos_grpc.budget import set_deadline
from memoryos_grpc.call import IncomingCall
from memoryos_grpc.config import GrpcSection
from memoryos_grpc.ports import Proceed

BUSY_RETRY_S = 0.2


class Deadline:
    """Bounds the time of each call and the number of calls at once.

    The time that is left is known to outgoing calls (`memoryos_grpc.budget`).
    """

    def __init__(self, config: GrpcSection) -> None:
        self._config = config
        self._running = 0
        self._streams: set[asyncio.Timeout] = set()
        self._draining = False

    def end_streams(self) -> None:
        """End running streams with UNAVAILABLE, so that their watchers resume elsewhere."""
        self._draining = True
        now = asyncio.get_running_loop().time()
        for timeout in self._streams:
            timeout.reschedule(now)

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Run the call within its time."""
        if self._running >= self._config.concurrent_calls_max:
            raise LimitExceeded(
                "Too many calls at once.",
                metadata={"limit": "grpc.concurrent_calls_max", "value": str(self._config.concurrent_calls_max)},
                retry_after_s=BUSY_RETRY_S,
            )
        self._running += 1
        try:
            await self._run(call, proceed)
        finally:
            self._running -= 1

    async def _run(self, call: IncomingCall, proceed: Proceed) -> None:
        streams = call.method.streams
        allowed_s = self._config.stream_s_max if streams else self._config.call_s_max
        left_s = call.context.time_remaining()
        if left_s is not None:
            if left_s < self._config.remaining_s_min:
                raise DeadlineExceeded("Too little time is left for this call.")
            allowed_s = min(allowed_s, left_s)
        set_deadline(asyncio.get_running_loop().time() + allowed_s)
        timeout = asyncio.timeout(allowed_s)
        try:
            async with timeout:
                if streams:
                    self._streams.add(timeout)
                await proceed(call)
        except TimeoutError:
            if not timeout.expired():
                raise
            if self._draining and streams:
                raise DependencyUnavailable("The server is stopping; resume the stream.") from None
            raise DeadlineExceeded from None
        finally:
            self._streams.discard(timeout)
