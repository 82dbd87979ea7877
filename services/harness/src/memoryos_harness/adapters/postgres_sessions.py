"""SessionStore on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_postgres import Database
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.session_facts import carry_over
from memoryos_postgres.transaction import Row, Tx

from memoryos_harness.adapters.message_rows import QUERIES, SEARCH, append_messages, read_message
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.domain.sessions import Message, MessageDraft, Session, SessionPage, SessionPlace
from memoryos_harness.errors import SessionNotFound
from memoryos_harness.ports import Request


class PostgresSessions:
    """See `SessionStore`."""

    def __init__(self, database: Database, sealed: SealedColumns, idempotency: Idempotency, ids: IdSource) -> None:
        self._database = database
        self._sealed = sealed
        self._idempotency = idempotency
        self._ids = ids

    async def create(self, scope: Scope, request: Request) -> Session:
        """See `SessionStore.create`."""
        async with self._database.scoped(scope) as tx:
            stored = await self._idempotency.begin(tx, scope, request.rpc, request.request_id, request.body)
            if stored is not None:
                return _session(await _existing(tx, stored.decode()))
            row = await tx.fetch_one(QUERIES["insert_session"], {"id": self._ids.new("ses")})
            assert row is not None
            _audit(tx, scope, request, row["id"])
            await self._idempotency.finish(tx, scope, request.rpc, request.request_id, row["id"].encode())
            return _session(row)

    async def get(self, scope: Scope, session_id: str) -> Session:
        """See `SessionStore.get`."""
        async with self._database.scoped(scope) as tx:
            return _session(await _existing(tx, session_id))

    async def append(
        self, scope: Scope, session_id: str, drafts: Sequence[MessageDraft], request: Request
    ) -> tuple[Message, ...]:
        """See `SessionStore.append`."""
        async with self._database.scoped(scope) as tx:
            stored = await self._idempotency.begin(tx, scope, request.rpc, request.request_id, request.body)
            if stored is None:
                first = await append_messages(tx, self._sealed, self._ids, scope, session_id, drafts)
                _audit(tx, scope, request, session_id)
                await self._idempotency.finish(tx, scope, request.rpc, request.request_id, str(first).encode())
            else:
                first = int(stored)
        async with self._database.scoped(scope) as tx:
            return await self._list(tx, scope, session_id, after=first - 1, limit=len(drafts))

    async def list_messages(
        self, scope: Scope, session_id: str, *, after_sequence: int, limit: int
    ) -> tuple[Message, ...]:
        """See `SessionStore.list_messages`."""
        async with self._database.scoped(scope) as tx:
            await _existing(tx, session_id)
            carry_over(tx, scope, [session_id])
            return await self._list(tx, scope, session_id, after=after_sequence, limit=limit)

    async def list_sessions(
        self, scope: Scope, *, all_users: bool, after: SessionPlace | None, limit: int
    ) -> SessionPage:
        """See `SessionStore.list_sessions`."""
        whose = "" if all_users else " AND user_id = core.user_name()"
        async with self._database.scoped(scope) as tx:
            as_of = after.as_of if after else await tx.fetch_value(SEARCH["database_time"])
            found: list[Row] = []
            resting = after is None or after.last_active_time is not None
            if resting:
                before = {
                    "before_time": after.last_active_time if after else "infinity",
                    "before_id": after.id if after else "",
                }
                query = SEARCH["resting_sessions"].replace("/*whose*/", whose)
                found = await tx.fetch_all(query, {"as_of": as_of, **before, "limit": limit + 1})
            rest = found[:limit]
            if len(found) > limit:
                return _page(
                    rest, SessionPlace(as_of=as_of, last_active_time=rest[-1]["last_active_time"], id=rest[-1]["id"])
                )
            query = SEARCH["moved_sessions"].replace("/*whose*/", whose)
            after_id = "" if resting or after is None else after.id
            params = {"as_of": as_of, "after_id": after_id, "limit": limit - len(rest) + 1}
            moved = await tx.fetch_all(query, params)
            shown = moved[: limit - len(rest)]
            last = shown[-1]["id"] if shown else after_id
            more = len(moved) > len(shown)
            return _page([*rest, *shown], SessionPlace(as_of=as_of, last_active_time=None, id=last) if more else None)

    async def history(self, scope: Scope, session_id: str, *, before_sequence: int, limit: int) -> tuple[Message, ...]:
        """See `SessionStore.history`."""
        async with self._database.scoped(scope) as tx:
            rows = await tx.fetch_all(
                QUERIES["last_messages"], {"session_id": session_id, "before": before_sequence, "limit": limit}
            )
            return tuple([await read_message(tx, self._sealed, scope, row) for row in reversed(rows)])

    async def _list(self, tx: Tx, scope: Scope, session_id: str, *, after: int, limit: int) -> tuple[Message, ...]:
        rows = await tx.fetch_all(QUERIES["list_messages"], {"session_id": session_id, "after": after, "limit": limit})
        return tuple([await read_message(tx, self._sealed, scope, row) for row in rows])


async def _existing(tx: Tx, session_id: str) -> Row:
    row = await tx.fetch_one(QUERIES["get_session"], {"id": session_id})
    if row is None:
        raise SessionNotFound
    return row


def _audit(tx: Tx, scope: Scope, request: Request, session_id: str) -> None:
    record(
        tx,
        AuditEvent(
            kind=Kind.SESSION_WRITE,
            actor=Actor.of(scope),
            service="harness",
            method=request.rpc,
            target_type="session",
            target_ids=[session_id],
        ),
    )


def _session(row: Row) -> Session:
    return Session(
        id=row["id"],
        user=row["user_id"],
        create_time=row["create_time"],
        last_active_time=row["last_active_time"],
        turn_count=row["turn_count"],
    )


def _page(rows: list[Row], ended: SessionPlace | None) -> SessionPage:
    return SessionPage(sessions=tuple(_session(row) for row in rows), next=ended)
