"""ports.CallBook in PostgreSQL: lists, withdrawals, and the ends of doubts."""

from __future__ import annotations

from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.paging import Position
from memoryos_core.scope import Scope
from memoryos_core.sealing import aad, seal
from memoryos_postgres import Database
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_telemetry import current_traceparent

from memoryos_toolgateway.adapters import journal_audit
from memoryos_toolgateway.adapters.journal_rows import QUERIES, CallRows, place
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import SETTLES_ALL, Call, CallState
from memoryos_toolgateway.domain.skill import EffectClass
from memoryos_toolgateway.ports import CallFilter, Finding

_RECONCILED: Final = b'{"reconciled":true}'
_CANCELLED: Final = {"error_code": messages.CANCELLED_CODE, "agent_message": messages.CANCELLED}


class PostgresCallBook:
    """ports.CallBook on the rows of the journal."""

    def __init__(self, database: Database, key_ring: PostgresKeyRing) -> None:
        self._database = database
        self._keys = key_ring
        self._rows = CallRows(key_ring)

    async def list_calls(self, scope: Scope, wanted: CallFilter, after: Position | None, limit: int) -> list[Call]:
        """Give calls without contents, newest first; see ports.CallBook."""
        params = {
            "tenant": scope.tenant,
            "user": scope.user,
            "chain": list(scope.chain),
            "any_user": not scope.roles.isdisjoint(SETTLES_ALL),
            "state": wanted.state or "",
            "skill": wanted.skill,
            "session_id": wanted.session_id,
            "task_id": wanted.task_id,
            "after": "" if after is None else str(after[0]),
            "limit": limit,
        }
        async with self._database.scoped(scope) as tx:
            rows = await tx.fetch_all(QUERIES["list_calls"], params)
            return [await self._rows.call(tx, row, with_contents=False) for row in rows]

    async def cancel(self, scope: Scope, call: Call) -> Call | None:
        """INTENDED or PARKED → CANCELLED; see ports.CallBook."""
        params = {"tenant": call.tenant, "id": call.id, **_CANCELLED}
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(QUERIES["cancel_call"], params)
            if row is None:
                return None
            journal_audit.withdrawn(tx, scope, await self._rows.call(tx, row, with_contents=False))
            ended = await self._rows.ended(tx, row, with_contents=True)
            crash_point("gateway.cancel.before_commit")
            return ended

    async def refuse(self, scope: Scope, issuer: str, request_id: str, call_id: str) -> bool:
        """Journal a call that has not come as CANCELLED; see ports.CallBook."""
        async with self._database.scoped(scope) as tx:
            key = await self._keys.subject_key(tx, scope.tenant, scope.user)
            params = {
                "tenant": scope.tenant,
                "id": call_id,
                "issuer": issuer,
                "request_id": request_id,
                "user": scope.user,
                "chain": list(scope.chain),
                "session_id": scope.session_id,
                "task_id": scope.task_id,
                "skill": "",
                "version": "",
                "definition_digest": "",
                "effect_class": EffectClass.NON_IDEMPOTENT,
                "action_digest_hmac": "",
                "arguments": seal(key, b"{}", place(scope.tenant, "arguments", call_id)),
                "asked_arguments": None,
                "asked_digest_hmac": "",
                "state": CallState.CANCELLED,
                "decision_id": "",
                "lease_epoch": 0,
                "traceparent": current_traceparent(),
                "allowance_s": None,
                "timeout_s": None,
                **_CANCELLED,
            }
            row = await tx.fetch_one(QUERIES["insert_call"], params)
            if row is not None:
                journal_audit.withdrawn(tx, scope, await self._rows.call(tx, row, with_contents=False))
                crash_point("gateway.cancel.before_commit")
            return row is not None

    async def settle(self, scope: Scope, call: Call, finding: Finding) -> Call | None:
        """UNKNOWN → SUCCEEDED or FAILED; see ports.CallBook."""
        async with self._database.scoped(scope) as tx:
            key = await self._keys.subject_key(tx, call.tenant, call.user)
            params = {
                "tenant": call.tenant,
                "id": call.id,
                "dispatches": call.dispatches,
                "user": call.user,
                "state": CallState.SUCCEEDED if finding.happened else CallState.FAILED,
                "result": seal(key, _RECONCILED, place(call.tenant, "result", call.id)) if finding.happened else None,
                "error_code": "" if finding.happened else messages.DID_NOT_HAPPEN_CODE,
                "agent_message": messages.HAPPENED if finding.happened else messages.DID_NOT_HAPPEN,
                "by_user": finding.by_user,
                "outcome": "happened" if finding.happened else "did_not_happen",
                "comment": None,
            }
            row = await tx.fetch_one(QUERIES["settle_call"], params)
            if row is None:
                return None
            if finding.comment:
                params["comment"] = seal(key, finding.comment.encode(), _comment_place(call.tenant, call.id))
            tx.defer(QUERIES["note_reconciliation"], params)
            ended = await self._rows.ended(tx, row, with_contents=True)
            journal_audit.settled(tx, scope, ended, by_person=bool(finding.by_user))
            crash_point("gateway.reconcile.before_commit")
            return ended

    async def doubts(self, limit: int) -> list[Call]:
        """Give calls whose upstream is to be asked now; see ports.CallBook."""
        async with self._database.unscoped() as tx:
            due = await tx.fetch_all(QUERIES["due_doubts"], {"limit": limit})
        found = []
        for entry in due:
            params = {"tenant": entry["tenant"], "id": entry["call_id"]}
            async with self._database.tenant(entry["tenant"]) as tx:
                row = await tx.fetch_one(QUERIES["get_doubt"], params)
                if row is None:
                    tx.defer(QUERIES["unqueue_doubt"], params)
                else:
                    found.append(await self._rows.call(tx, row, with_contents=True))
        return found

    async def without_doubt(self, call: Call) -> None:
        """Ask no more about a call; see ports.CallBook."""
        async with self._database.tenant(call.tenant) as tx:
            await tx.execute(QUERIES["unqueue_doubt"], {"tenant": call.tenant, "id": call.id})


def _comment_place(tenant: str, call_id: str) -> bytes:
    return aad(tenant, "toolgateway.reconciliations.comment", call_id)
