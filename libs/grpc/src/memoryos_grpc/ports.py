"""The seams of this library: what an interceptor is, and who is told of denials."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from memoryos_core.scope import Scope

from memoryos_grpc.call import IncomingCall
from memoryos_grpc.caller import Caller

_log = logging.getLogger(__name__)

Proceed = Callable[[IncomingCall], Awaitable[None]]
"""The rest of a call: the interceptors below, then the handler. It fills `call.reply` or streams."""


class Interceptor(Protocol):
    """One concern around every call. It either raises or awaits `proceed(call)` exactly once."""

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Do the work around `proceed`."""


class ScopeBound(Protocol):
    """What a service keeps that narrows its callers beyond their tokens."""

    async def narrow(self, scope: Scope) -> Scope:
        """Give the scope itself, or one with less in it; never more."""


class DenialKind(StrEnum):
    """Audit kinds of refused calls."""

    AUTH_FAILED = "AUTH_FAILED"
    PERMISSION_DENIED = "PERMISSION_DENIED"


class AuditSink(Protocol):
    """Keeps a record of calls that were refused for who made them."""

    async def denied(self, kind: DenialKind, method: str, caller: Caller | None, reason: str) -> None:
        """Record one refusal.

        `caller` is None when nobody was verified. `reason` is a name of an
        ErrorReason. Raising does not let the call through: it stays refused
        and the failure is logged.
        """


class LogAuditSink:
    """Writes denials to the log; for processes without a database."""

    async def denied(self, kind: DenialKind, method: str, caller: Caller | None, reason: str) -> None:
        """Log one refusal."""
        extra = {"kind": str(kind), "method": method, "reason": reason, "service_caller": caller and caller.service}
        _log.warning("call denied", extra=extra)
