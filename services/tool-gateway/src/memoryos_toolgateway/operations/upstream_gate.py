"""Who may call an upstream right now: a circuit breaker and a bulkhead, both of this process.

Replicas count for themselves: each finds out on its own that an upstream is
away, after a few calls. Circuits are kept by tenant, so that calls of one which
make an upstream fail close it to nobody else; the bulkhead is the upstream's, so
that a slow one takes no more than its share of this process.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from memoryos_core.clock import Clock

from memoryos_toolgateway.domain import messages


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """When an upstream counts as out of order, and how many calls it may have at once."""

    failures_max: int = 5
    """Failures in a row that open the circuit."""
    open_s: float = 10.0
    """How long nobody calls then; after that one call tries."""
    at_once_max: int = 64
    turn_s: float = 1.0
    """How long a call waits for its turn."""


class UpstreamClosed(Exception):
    """The upstream is not called now; nothing was sent."""

    def __init__(self, error_code: str, retry_after_s: float) -> None:
        super().__init__(error_code)
        self.error_code = error_code
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    open_until: float = 0.0
    probing: bool = False


@dataclass(slots=True)
class Permit:
    """The right to call one upstream, as often as one dispatch needs. Left in any case."""

    gate: UpstreamGate
    tenant: str
    upstream: str
    probe: bool

    def note(self, *, failed: bool) -> bool:
        """Count how an attempt ended; False when there should be no further one."""
        return self.gate.note(self, failed=failed)

    def leave(self) -> None:
        """Give the place back."""
        self.gate.leave(self)


@dataclass(slots=True, kw_only=True)
class UpstreamGate:
    """Gives permits. Circuits that are closed and well are not kept."""

    clock: Clock
    limits: GateLimits = GateLimits()
    circuits: dict[tuple[str, str], _Circuit] = field(default_factory=dict)
    turns: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    async def enter(self, tenant: str, upstream: str) -> Permit:
        """Give the right to call `upstream`, or raise UpstreamClosed."""
        turn = self.turns.setdefault(upstream, asyncio.Semaphore(self.limits.at_once_max))
        try:
            async with asyncio.timeout(self.limits.turn_s):
                await turn.acquire()
        except TimeoutError:
            raise UpstreamClosed(messages.UPSTREAM_BUSY_CODE, self.limits.turn_s) from None
        circuit = self.circuits.get((tenant, upstream))
        probe = circuit is not None and circuit.failures >= self.limits.failures_max
        if circuit is not None and probe:
            left_s = circuit.open_until - self.clock.monotonic()
            if left_s > 0 or circuit.probing:
                turn.release()
                raise UpstreamClosed(messages.UPSTREAM_OPEN_CODE, max(left_s, 1.0))
            circuit.probing = True
        return Permit(self, tenant, upstream, probe)

    def note(self, permit: Permit, *, failed: bool) -> bool:
        """See Permit.note."""
        key = (permit.tenant, permit.upstream)
        if not failed:
            self.circuits.pop(key, None)
            return True
        circuit = self.circuits.setdefault(key, _Circuit())
        circuit.failures += 1
        if circuit.failures < self.limits.failures_max:
            return True
        circuit.open_until = self.clock.monotonic() + self.limits.open_s
        return False

    def leave(self, permit: Permit) -> None:
        """See Permit.leave."""
        circuit = self.circuits.get((permit.tenant, permit.upstream))
        if circuit is not None and permit.probe:
            circuit.probing = False
        self.turns[permit.upstream].release()
