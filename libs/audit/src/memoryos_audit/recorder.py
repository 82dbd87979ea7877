"""Writing audit rows: in the transaction of what they record, or group-committed for reads.

If the row cannot be written, the call is refused: with `record` because its
transaction fails, with `ReadRecorder.record` because it raises AuditUnavailable.
"""

import asyncio
import logging
from typing import Any, Final

from memoryos_core.errors import AuditUnavailable
from memoryos_postgres import Database, Tx
from memoryos_postgres.database import array_literal
from memoryos_telemetry.context import current_trace_id
from psycopg.types.json import Jsonb

from memoryos_audit.event import AuditEvent

BATCH_MAX: Final = 500
PENDING_MAX: Final = 10_000
"""Reads waiting for their row; more are refused at once."""

_log = logging.getLogger(__name__)
_SET_TENANT: Final = "SELECT set_config('memoryos.tenant', %s, true)"
_INSERT: Final = (
    "INSERT INTO core.audit (tenant, kind, service, method, user_name, actor, chain, session_id, task_id, call_id,"
    " decision_id, trace_id, target_type, target_ids, target_hmac, outcome, reason, count, duration_us, attributes)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def record(tx: Tx, event: AuditEvent) -> None:
    """Add the row to the transaction: it is sent together with COMMIT and kept exactly if the transaction is.

    The transaction must be of the event's tenant.
    """
    tx.defer(_INSERT, _values(event, event.trace_id or current_trace_id()))


class ReadRecorder:
    """Rows of reads, which have no transaction of their own to join.

    Concurrent reads share one commit: while one batch is on its way the next
    one gathers. A lone read waits for one round trip.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[tuple[tuple[Any, ...], asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None

    async def record(self, event: AuditEvent) -> None:
        """Return when the row is committed; AuditUnavailable when it cannot be, so that nothing is answered."""
        if len(self._pending) >= PENDING_MAX:
            raise AuditUnavailable(metadata={"limit": "pending_audit_rows"})
        done = asyncio.get_running_loop().create_future()
        self._pending.append((_values(event, event.trace_id or current_trace_id()), done))
        if self._flusher is None:
            # A task of its own: a caller that goes away takes nobody else's row with it.
            self._flusher = asyncio.create_task(self._flush())
        await done

    async def close(self) -> None:
        """Return when everything pending is written or refused."""
        while self._flusher is not None:
            await asyncio.wait([self._flusher])

    async def _flush(self) -> None:
        while self._pending:
            batch, self._pending = self._pending[:BATCH_MAX], self._pending[BATCH_MAX:]
            try:
                await self._write([values for values, _ in batch])
            except Exception as error:
                _log.warning("audit rows not written", exc_info=error, extra={"count": len(batch)})
                _finish(batch, error)
            else:
                _finish(batch, None)
        self._flusher = None

    async def _write(self, rows: list[tuple[Any, ...]]) -> None:
        async with self._database.unscoped() as tx:
            tenant = None
            for row in sorted(rows, key=_tenant):
                if row[0] != tenant:
                    tenant = row[0]
                    tx.defer(_SET_TENANT, (tenant,))
                tx.defer(_INSERT, row)


def _tenant(row: tuple[Any, ...]) -> str:
    return str(row[0])


def _finish(batch: list[tuple[tuple[Any, ...], asyncio.Future[None]]], error: Exception | None) -> None:
    for _, done in batch:
        if done.done():  # its caller was cancelled
            continue
        if error is None:
            done.set_result(None)
        else:
            unavailable = AuditUnavailable()
            unavailable.__cause__ = error
            done.set_exception(unavailable)


def _values(event: AuditEvent, trace_id: str) -> tuple[Any, ...]:
    actor = event.actor
    return (
        actor.tenant,
        event.kind.value,
        event.service,
        event.method or None,
        actor.user or None,
        actor.principal or None,
        array_literal(actor.chain) if actor.chain else None,
        actor.session_id or None,
        event.task_id or actor.task_id or None,
        event.call_id or None,
        event.decision_id or None,
        trace_id or None,
        event.target_type or None,
        array_literal(tuple(event.target_ids)) if event.target_ids else None,
        event.target_hmac or None,
        event.outcome.value,
        event.reason or None,
        event.count,
        event.duration_us,
        Jsonb(dict(event.attributes)) if event.attributes else None,
    )
