"""The effect journal in PostgreSQL: schema toolgateway.

Each method is one transaction that changes the row, keeps its deadline in the
queue and writes the audit row; contents are sealed with the key of the user on
whose behalf the call is made.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import MemoryOSError
from memoryos_core.scope import Scope
from memoryos_core.sealing import DataKey, aad, key_id_of, open_sealed, seal
from memoryos_postgres import Database, Row, Tx, queries
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_telemetry import current_traceparent

from memoryos_toolgateway.adapters import journal_audit
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Call, CallState, NewCall, Outcome
from memoryos_toolgateway.domain.decisions import Verdict
from memoryos_toolgateway.domain.skill import EffectClass
from memoryos_toolgateway.errors import EpochFenced

_log = logging.getLogger(__name__)
_QUERIES: Final = queries.load("memoryos_toolgateway")


class PostgresJournal:
    """ports.Journal on PostgreSQL."""

    def __init__(self, database: Database, key_ring: PostgresKeyRing) -> None:
        self._database = database
        self._keys = key_ring

    async def find(self, scope: Scope, issuer: str, request_id: str, lease_epoch: int) -> Call | None:
        """Give the call of this request with its contents, or None; see ports.Journal."""
        params = {"tenant": scope.tenant, "issuer": issuer, "request_id": request_id}
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(_QUERIES["find_call"], params)
            if lease_epoch:
                await self._fence(tx, scope, row, lease_epoch)
            return None if row is None else await self._settled(tx, row, with_contents=True)

    async def _fence(self, tx: Tx, scope: Scope, row: Row | None, lease_epoch: int) -> None:
        params = {"tenant": scope.tenant, "task_id": scope.task_id, "lease_epoch": lease_epoch}
        seen = await tx.fetch_value(_QUERIES["greatest_epoch"], params) or 0
        if lease_epoch < max(seen, row["lease_epoch"] if row else 0):
            raise EpochFenced
        if row and row["lease_epoch"] < lease_epoch:
            await tx.execute(_QUERIES["raise_epoch"], {**params, "id": row["id"]})

    async def open(self, scope: Scope, new: NewCall) -> tuple[Call, bool]:
        """Journal a new call; see ports.Journal."""
        async with self._database.scoped(scope) as tx:
            key = await self._keys.subject_key(tx, scope.tenant, scope.user)
            digests = await self._keys.tenant_keys(tx, scope.tenant)
            row = await tx.fetch_one(_QUERIES["insert_call"], _new_row(scope, new, key, digests.digest_hmac))
            if row is None:
                found = {"tenant": scope.tenant, "issuer": new.issuer, "request_id": new.request_id}
                row = await tx.fetch_one(_QUERIES["find_call"], found)
                assert row is not None, "a call is never deleted"
                return await self._settled(tx, row, with_contents=True), False
            call = await self._call(tx, row, with_contents=True)
            journal_audit.asked(tx, scope, call)
            return call, True

    async def get(self, scope: Scope, call_id: str, *, with_contents: bool) -> Call | None:
        """Give a call of the scope's tenant, or None; see ports.Journal."""
        any_user = "auditor" in scope.roles
        params = {"tenant": scope.tenant, "id": call_id, "user": scope.user, "any_user": any_user}
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(_QUERIES["get_call"], params)
            own = row is not None and row["user_name"] == scope.user
            return None if row is None else await self._settled(tx, row, with_contents=with_contents and own)

    async def park(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED or PARKED → PARKED; see ports.Journal."""
        params = _verdict_params(call, verdict)
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(_QUERIES["park_call"], params)
            return None if row is None else await self._call(tx, row, with_contents=True)

    async def dispatch(self, scope: Scope, call: Call, verdict: Verdict, allowance_s: float) -> Call | None:
        """The compare-and-set before the effect; see ports.Journal."""
        async with self._database.scoped(scope) as tx:
            digests = await self._keys.tenant_keys(tx, scope.tenant)
            params = {
                **_verdict_params(call, verdict),
                "from_state": call.state,
                "dispatches": call.dispatches,
                "action_digest_hmac": digests.digest_hmac(call.action_digest),
                "allowance_s": allowance_s,
            }
            row = await tx.fetch_one(_QUERIES["dispatch_call"], params)
            if row is None:
                return None
            sent = await self._call(tx, row, with_contents=True)
            tx.defer(_QUERIES["queue_deadline"], {**params, "deadline": row["deadline"]})
            if call.state is CallState.PARKED:
                journal_audit.resumed(tx, scope, sent)
                crash_point("gateway.call.while_consuming_approval")
            return sent

    async def deny(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED or PARKED → DENIED; see ports.Journal."""
        params = {**_verdict_params(call, verdict), "from_state": call.state, "known_review_id": call.review_id}
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(_QUERIES["deny_call"], params)
            return None if row is None else await self._ended(tx, row, with_contents=True)

    async def finish(self, scope: Scope, call: Call, outcome: Outcome) -> Call | None:
        """Journal how a dispatch ended; see ports.Journal."""
        async with self._database.scoped(scope) as tx:
            result = None
            if outcome.state is CallState.SUCCEEDED:
                key = await self._keys.subject_key(tx, call.tenant, call.user)
                result = seal(key, outcome.result, _place(call.tenant, "result", call.id))
            params = {
                "tenant": call.tenant,
                "id": call.id,
                "dispatches": call.dispatches,
                "state": outcome.state,
                "result": result,
                "error_code": outcome.error_code,
                "agent_message": outcome.agent_message,
            }
            row = await tx.fetch_one(_QUERIES["finish_call"], params)
            return None if row is None else await self._ended(tx, row, with_contents=True)

    async def expire(self, limit: int) -> int:
        """Make UNKNOWN of overdue calls in all tenants; see ports.Journal."""
        async with self._database.unscoped() as tx:
            overdue = await tx.fetch_all(_QUERIES["overdue_calls"], {"limit": limit})
        expired = 0
        for entry in overdue:
            try:
                async with self._database.tenant(entry["tenant"]) as tx:
                    found = await self._expire(tx, entry["tenant"], entry["call_id"], with_contents=False)
            except MemoryOSError as error:  # one bad row does not keep the others waiting
                _log.warning("call not expired", extra={"call_id": entry["call_id"], "reason": error.reason})
            else:
                expired += found is not None
        return expired

    async def page_key(self, scope: Scope) -> bytes:
        """Give the tenant's key for page tokens."""
        async with self._database.scoped(scope) as tx:
            return (await self._keys.tenant_keys(tx, scope.tenant)).pages

    async def _settled(self, tx: Tx, row: Row, *, with_contents: bool) -> Call:
        """Give the call of a row, expired first if its deadline has passed."""
        if row["overdue"]:
            expired = await self._expire(tx, row["tenant"], row["id"], with_contents=with_contents)
            if expired is not None:
                return expired
            again = {"tenant": row["tenant"], "id": row["id"], "user": row["user_name"], "any_user": False}
            row = await tx.fetch_one(_QUERIES["get_call"], again) or row
        return await self._call(tx, row, with_contents=with_contents)

    async def _expire(self, tx: Tx, tenant: str, call_id: str, *, with_contents: bool) -> Call | None:
        params = {
            "tenant": tenant,
            "id": call_id,
            "error_code": messages.UNKNOWN_CODE,
            "agent_message": messages.UNKNOWN,
        }
        row = await tx.fetch_one(_QUERIES["expire_call"], params)
        return None if row is None else await self._ended(tx, row, with_contents=with_contents)

    async def _ended(self, tx: Tx, row: Row, *, with_contents: bool) -> Call:
        call = await self._call(tx, row, with_contents=with_contents)
        tx.defer(_QUERIES["unqueue_deadline"], {"tenant": call.tenant, "id": call.id})
        journal_audit.ended(tx, call, session_id=row["session_id"], task_id=row["task_id"])
        return call

    async def _call(self, tx: Tx, row: Row, *, with_contents: bool) -> Call:
        contents = {"arguments": b"", "result": b""}
        for column in contents if with_contents else ():
            sealed = row[column]
            if sealed is not None:
                key = await self._keys.by_id(tx, row["tenant"], key_id_of(sealed))
                contents[column] = open_sealed(key, sealed, _place(row["tenant"], column, row["id"]))
        return Call(
            tenant=row["tenant"],
            id=row["id"],
            issuer=row["issuer"],
            request_id=row["request_id"],
            user=row["user_name"],
            chain=tuple(row["chain"]),
            skill=row["skill"],
            version=row["version"],
            definition_digest=row["definition_digest"],
            effect_class=EffectClass(row["effect_class"]),
            state=CallState(row["state"]),
            dispatches=row["dispatches"],
            approval_used=row["approval_used"],
            action_digest_hmac=row["action_digest_hmac"],
            error_code=row["error_code"],
            agent_message=row["agent_message"],
            decision_id=row["decision_id"],
            review_id=row["review_id"],
            lease_epoch=row["lease_epoch"],
            traceparent=row["traceparent"],
            create_time=row["create_time"],
            dispatch_time=row["dispatch_time"],
            end_time=row["end_time"],
            **contents,
        )


def _place(tenant: str, column: str, call_id: str) -> bytes:
    return aad(tenant, f"toolgateway.calls.{column}", call_id)


def _new_row(scope: Scope, new: NewCall, key: DataKey, digest_hmac: Any) -> dict[str, Any]:
    return {
        "tenant": scope.tenant,
        "id": new.id,
        "issuer": new.issuer,
        "request_id": new.request_id,
        "user": scope.user,
        "chain": list(scope.chain),
        "session_id": scope.session_id,
        "task_id": scope.task_id,
        "skill": new.skill.name,
        "version": new.skill.version,
        "definition_digest": new.skill.definition_digest,
        "effect_class": new.skill.effect_class,
        "action_digest_hmac": digest_hmac(new.action_digest),
        "arguments": seal(key, new.arguments, _place(scope.tenant, "arguments", new.id)),
        "state": new.state,
        "error_code": new.error_code,
        "agent_message": new.agent_message,
        "decision_id": new.decision_id,
        "lease_epoch": new.lease_epoch,
        "traceparent": current_traceparent(),
    }


def _verdict_params(call: Call, verdict: Verdict) -> dict[str, Any]:
    return {
        "tenant": call.tenant,
        "id": call.id,
        "decision_id": verdict.decision_id,
        "review_id": verdict.review_id,
        "error_code": verdict.error_code,
        "agent_message": verdict.agent_message,
    }
