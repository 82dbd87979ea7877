"""Rows of toolgateway.calls as calls, and what goes with every end of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from memoryos_core.scope import Scope
from memoryos_core.sealing import DataKey, aad, key_id_of, open_sealed, seal
from memoryos_postgres import Row, Tx, queries
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_postgres.session_facts import Fact, note
from memoryos_telemetry import current_traceparent

from memoryos_toolgateway.adapters import journal_audit
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Call, CallState, NewCall
from memoryos_toolgateway.domain.decisions import Verdict
from memoryos_toolgateway.domain.obligations import Notice
from memoryos_toolgateway.domain.skill import EffectClass

QUERIES: Final = queries.load("memoryos_toolgateway")
_SEALED: Final = ("arguments", "asked_arguments", "result")


class CallRows:
    """Reads rows of the journal, and closes calls that have ended."""

    def __init__(self, keys: PostgresKeyRing) -> None:
        self.keys = keys

    async def call(self, tx: Tx, row: Row, *, with_contents: bool) -> Call:
        """Give the call of a row."""
        contents = dict.fromkeys(_SEALED, b"")
        for column in _SEALED if with_contents else ():
            sealed = row[column]
            if sealed is not None:
                key = await self.keys.by_id(tx, row["tenant"], key_id_of(sealed))
                contents[column] = open_sealed(key, sealed, place(row["tenant"], column, row["id"]))
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
            rewritten=row["asked_digest_hmac"] != "",
            full_result_bytes=row["full_result_bytes"],
            full_result_sha256=row["full_result_sha256"],
            fallback=row["fallback"],
            error_code=row["error_code"],
            agent_message=row["agent_message"],
            decision_id=row["decision_id"],
            review_id=row["review_id"],
            session_id=row["session_id"],
            task_id=row["task_id"],
            lease_epoch=row["lease_epoch"],
            traceparent=row["traceparent"],
            create_time=row["create_time"],
            dispatch_time=row["dispatch_time"],
            end_time=row["end_time"],
            **contents,
        )

    async def given(self, tx: Tx, scope: Scope, row: Row, *, with_contents: bool) -> Call:
        """Give the call to a reader, expired first if its deadline has passed.

        What its result brings into a session is noted for the reader's, in the
        same transaction: whoever sees it later, or in another session, has seen it.
        """
        if row["overdue"]:
            expired = await self.expire(tx, row["tenant"], row["id"], with_contents=with_contents)
            if expired is not None:
                return expired
            again = {"tenant": row["tenant"], "id": row["id"], "user": row["user_name"], "any_user": False}
            row = await tx.fetch_one(QUERIES["get_call"], again) or row
        if with_contents and row["result"] is not None and row["facts"]:
            note(tx, scope, map(Fact, row["facts"]), source=f"skill:{row['skill']}")
        return await self.call(tx, row, with_contents=with_contents)

    async def expire(self, tx: Tx, tenant: str, call_id: str, *, with_contents: bool) -> Call | None:
        """Make UNKNOWN of an overdue call; None when it is not, or not any more."""
        params = {
            "tenant": tenant,
            "id": call_id,
            "error_code": messages.UNKNOWN_CODE,
            "agent_message": messages.UNKNOWN,
        }
        row = await tx.fetch_one(QUERIES["expire_call"], params)
        return None if row is None else await self.ended(tx, row, with_contents=with_contents)

    async def ended(self, tx: Tx, row: Row, *, with_contents: bool) -> Call:
        """Give the call of a row that has ended just now; its queues, notices and audit row go with it."""
        call = await self.call(tx, row, with_contents=with_contents)
        params = {"tenant": call.tenant, "id": call.id, "state": call.state}
        tx.defer(QUERIES["close_call"], params)
        if call.state is CallState.UNKNOWN and call.effect_class is not EffectClass.READ:
            tx.defer(QUERIES["queue_doubt"], params)
        journal_audit.ended(tx, call)
        return call


def ask_notices(tx: Tx, call: Call, notices: tuple[Notice, ...]) -> None:
    """Keep who is to be told of the end of a call; `CallRows.ended` makes it due."""
    for number, notice in enumerate(notices):
        params = {"tenant": call.tenant, "id": call.id, "user": call.user, "notice_id": f"{call.id}.{number}"}
        tx.defer(QUERIES["ask_notice"], {**params, "channel": notice.channel, "text": notice.text})


def place(tenant: str, column: str, call_id: str) -> bytes:
    """Give where a sealed column stands, which its seal is bound to."""
    return aad(tenant, f"toolgateway.calls.{column}", call_id)


def new_row(scope: Scope, new: NewCall, key: DataKey, digest_hmac: Callable[[str], str]) -> dict[str, Any]:
    """Give the values of a row that is made."""
    asked = new.asked_arguments
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
        "arguments": seal(key, new.arguments, place(scope.tenant, "arguments", new.id)),
        "asked_arguments": seal(key, asked, place(scope.tenant, "asked_arguments", new.id)) if asked else None,
        "asked_digest_hmac": digest_hmac(new.asked_digest) if asked else "",
        "state": new.state,
        "error_code": new.error_code,
        "agent_message": new.agent_message,
        "decision_id": new.decision_id,
        "lease_epoch": new.lease_epoch,
        "traceparent": current_traceparent(),
        "allowance_s": None,
        "timeout_s": None,
    }


def verdict_params(call: Call, verdict: Verdict) -> dict[str, Any]:
    """Give the values by which a verdict moves a call."""
    return {
        "tenant": call.tenant,
        "id": call.id,
        "decision_id": verdict.decision_id,
        "review_id": verdict.review_id,
        "error_code": verdict.error_code,
        "agent_message": verdict.agent_message,
    }
