"""Sixth: one user's calls never fill the server, so that everyone else is still served."""

from __future__ import annotations

from collections import Counter

from memoryos_core.errors import LimitExceeded, RoleRequired

from memoryos_grpc.call import IncomingCall
from memoryos_grpc.config import GrpcSection
from memoryos_grpc.interceptors.deadline import BUSY_RETRY_S
from memoryos_grpc.ports import Proceed


class Share:
    """Bounds the calls of one user at once, streams among them: those stay open for as long as their watcher likes."""

    def __init__(self, config: GrpcSection) -> None:
        self._max = config.calls_per_user_max
        self._running: Counter[tuple[str, str]] = Counter()

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Run the call as one of its user's, or refuse it."""
        if call.caller is None:  # an order of interceptors that never authenticates
            raise RoleRequired
        user = (call.caller.identity.tenant, call.caller.identity.user)
        if self._running[user] >= self._max:
            raise LimitExceeded(
                "Too many calls of one user at once.",
                metadata={"limit": "grpc.calls_per_user_max", "value": str(self._max)},
                retry_after_s=BUSY_RETRY_S,
            )
        self._running[user] += 1
        try:
            await proceed(call)
        finally:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
