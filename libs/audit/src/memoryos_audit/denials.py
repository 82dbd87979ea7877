"""Audit rows of refused calls, so that a flood of bad tokens cannot fill the disk.

Equal denials (same caller, kind, method, reason) within a window get a row each
up to a limit; what comes beyond it is counted and written as one row with
`count` when the window ends. What a caller without a valid token says about
itself is not kept: it could say anything.
"""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Final, Protocol

from memoryos_core.errors import AuditUnavailable
from memoryos_core.tokens import Identity

from memoryos_audit.event import Actor, AuditEvent, Kind, Outcome
from memoryos_audit.recorder import ReadRecorder

WINDOW_S: Final = 10.0
ROWS_PER_WINDOW: Final = 20
"""Rows for equal denials in one window, before counting starts."""
KEYS_MAX: Final = 1000
"""Different denials counted in one window; more are counted under their kind alone."""

_log = logging.getLogger(__name__)


class VerifiedCaller(Protocol):
    """What the gRPC library knows of a caller whose tokens verified."""

    @property
    def identity(self) -> Identity:
        """For whom the call is."""

    @property
    def service(self) -> str | None:
        """The service that makes the call, if one does."""


@dataclass
class _Count:
    event: AuditEvent
    rows: int = 0
    beyond: int = 0


class DenialRecorder:
    """The AuditSink of the gRPC interceptors. `close` writes the counts that are open."""

    def __init__(self, recorder: ReadRecorder, service: str, *, window_s: float = WINDOW_S) -> None:
        self._recorder = recorder
        self._service = service
        self._window_s = window_s
        self._counts: dict[tuple[str, ...], _Count] = {}
        self._window: asyncio.Task[None] | None = None

    async def denied(self, kind: str, method: str, caller: VerifiedCaller | None, reason: str) -> None:
        """Record one refusal; returns when its row is committed or it is counted."""
        if self._window is None or self._window.done():
            self._window = asyncio.create_task(self._end_window())
        actor = Actor.unknown() if caller is None else Actor.of_identity(caller.identity)
        event = AuditEvent(
            kind=Kind(kind),
            actor=actor,
            service=self._service,
            method=method.lstrip("/")[:512],
            outcome=Outcome.DENIED,
            reason=reason,
            attributes={"caller_service": caller.service} if caller is not None and caller.service else {},
        )
        key: tuple[str, ...] = (actor.tenant, actor.principal, kind, method, reason)
        if key not in self._counts and len(self._counts) >= KEYS_MAX:
            key = (kind,)
            event = replace(event, actor=Actor.unknown(), method="", attributes={})
        count = self._counts.setdefault(key, _Count(event))
        if count.rows < ROWS_PER_WINDOW:
            count.rows += 1
            await self._recorder.record(event)
        else:
            count.beyond += 1

    async def close(self) -> None:
        """Write the open counts."""
        if self._window is not None:
            self._window.cancel()
            await asyncio.wait([self._window])
        await self._write_counts()

    async def _end_window(self) -> None:
        await asyncio.sleep(self._window_s)
        await self._write_counts()

    async def _write_counts(self) -> None:
        counts, self._counts = self._counts, {}
        for count in counts.values():
            if count.beyond:
                try:
                    await self._recorder.record(replace(count.event, count=count.beyond))
                except AuditUnavailable:
                    # The calls were refused all the same; the log is what is left to say so.
                    _log.exception("denials not recorded", extra={"count": count.beyond, "kind": count.event.kind})
