"""The effect journal in PostgreSQL: schema toolgateway.

Each method is one transaction that changes the row, keeps its deadline in the
queue and writes the audit row; contents are sealed with the key of the user on
whose behalf the call is made.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import MemoryOSError
from memoryos_core.scope import Scope
from memoryos_core.sealing import TenantKeys, aad, key_id_of, open_sealed, seal
from memoryos_postgres import Database, Row, Tx
from memoryos_postgres.keyring import PostgresKeyRing
from memoryos_postgres.session_facts import Fact, note

from memoryos_toolgateway.adapters import journal_audit
from memoryos_toolgateway.adapters.journal_rows import QUERIES, CallRows, ask_notices, new_row, place, verdict_params
from memoryos_toolgateway.domain.calls import SETTLES_ALL, Call, CallState, NewCall, Outcome
from memoryos_toolgateway.domain.decisions import Verdict
from memoryos_toolgateway.domain.obligations import RateLimit
from memoryos_toolgateway.errors import EpochFenced
from memoryos_toolgateway.ports import Dispatch, RateExceeded

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much of whole results is kept, and for how long."""

    user_bytes_max: int = 64 * 1024 * 1024
    tenant_bytes_max: int = 1024 * 1024 * 1024
    hours: int = 24


class PostgresJournal:
    """ports.Journal on PostgreSQL."""

    def __init__(self, database: Database, key_ring: PostgresKeyRing, quota: Quota | None = None) -> None:
        self._database = database
        self._keys = key_ring
        self._rows = CallRows(key_ring)
        self._quota = quota or Quota()

    async def find(self, scope: Scope, issuer: str, request_id: str, lease_epoch: int) -> Call | None:
        """Give the call of this request with its contents, or None; see ports.Journal."""
        params = {"tenant": scope.tenant, "issuer": issuer, "request_id": request_id}
        async with self._database.scoped(scope) as tx:
            rows = await (tx.fetch_all if lease_epoch else tx.fetch_alone)(QUERIES["find_call"], params)
            row = rows[0] if rows else None
            if lease_epoch:
                await self._fence(tx, scope, row, lease_epoch)
            return None if row is None else await self._rows.given(tx, scope, row, with_contents=True)

    async def _fence(self, tx: Tx, scope: Scope, row: Row | None, lease_epoch: int) -> None:
        params = {"tenant": scope.tenant, "task_id": scope.task_id, "lease_epoch": lease_epoch}
        seen = await tx.fetch_value(QUERIES["greatest_epoch"], params) or 0
        if lease_epoch < max(seen, row["lease_epoch"] if row else 0):
            raise EpochFenced
        if row and row["lease_epoch"] < lease_epoch:
            await tx.execute(QUERIES["raise_epoch"], {**params, "id": row["id"]})

    async def open(self, scope: Scope, new: NewCall) -> tuple[Call, bool]:
        """Journal a new call; see ports.Journal."""
        async with self._database.scoped(scope) as tx:
            key = await self._keys.subject_key(tx, scope.tenant, scope.user)
            digests = await self._keys.tenant_keys(tx, scope.tenant)
            row = await tx.fetch_one(QUERIES["insert_call"], new_row(scope, new, key, digests.digest_hmac))
            if row is None:
                found = {"tenant": scope.tenant, "issuer": new.issuer, "request_id": new.request_id}
                row = await tx.fetch_one(QUERIES["find_call"], found)
                assert row is not None, "a call is never deleted"
                return await self._rows.given(tx, scope, row, with_contents=True), False
            call = await self._rows.call(tx, row, with_contents=True)
            journal_audit.asked(tx, scope, call)
            if new.notices:
                ask_notices(tx, call, new.notices)
                tx.defer(QUERIES["close_call"], {"tenant": call.tenant, "id": call.id, "state": call.state})
            return call, True

    async def get(self, scope: Scope, call_id: str, *, with_contents: bool) -> Call | None:
        """Give a call of the scope's tenant, or None; see ports.Journal."""
        any_user = not scope.roles.isdisjoint(SETTLES_ALL)
        params = {"tenant": scope.tenant, "id": call_id, "user": scope.user, "any_user": any_user}
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(QUERIES["get_call"], params)
            own = row is not None and row["user_name"] == scope.user
            return None if row is None else await self._rows.given(tx, scope, row, with_contents=with_contents and own)

    async def park(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED or PARKED → PARKED; see ports.Journal."""
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(QUERIES["park_call"], verdict_params(call, verdict))
            return None if row is None else await self._rows.call(tx, row, with_contents=True)

    async def dispatch(self, scope: Scope, call: Call | NewCall, terms: Dispatch) -> Call | None:
        """The compare-and-set before the effect; see ports.Journal."""
        try:
            return await self._dispatch(scope, call, terms)
        except _MovedOnError:
            return None

    async def _dispatch(self, scope: Scope, call: Call | NewCall, terms: Dispatch) -> Call:
        async with self._database.scoped(scope) as tx:
            keys = await self._keys.tenant_keys(tx, scope.tenant)
            await _take(tx, keys, scope.tenant, terms.rates)
            times = {"allowance_s": terms.allowance_s, "timeout_s": terms.timeout_s}
            if isinstance(call, NewCall):
                key = await self._keys.subject_key(tx, scope.tenant, scope.user)
                params = {**new_row(scope, call, key, keys.digest_hmac), **times, "state": CallState.DISPATCHED}
                row = await tx.fetch_one(QUERIES["insert_call"], params)
            else:
                params = {
                    **verdict_params(call, terms.verdict),
                    **times,
                    "from_state": call.state,
                    "dispatches": call.dispatches,
                    "action_digest_hmac": keys.digest_hmac(call.action_digest),
                }
                row = await tx.fetch_one(QUERIES["dispatch_call"], params)
            if row is None:
                raise _MovedOnError  # what was taken is given back
            sent = await self._rows.call(tx, row, with_contents=True)
            tx.defer(QUERIES["queue_deadline"], {**params, "deadline": row["deadline"]})
            ask_notices(tx, sent, terms.verdict.obligations.notices)
            if isinstance(call, NewCall):
                journal_audit.asked(tx, scope, sent)
            elif call.state is CallState.PARKED:
                journal_audit.resumed(tx, scope, sent)
                crash_point("gateway.call.while_consuming_approval")
            return sent

    async def may_send(self, call: Call, needs_s: float) -> bool:
        """The last look before sending; see ports.Journal."""
        params = {"tenant": call.tenant, "id": call.id, "dispatches": call.dispatches, "needs_s": needs_s}
        async with self._database.tenant(call.tenant) as tx:
            return bool(await tx.fetch_last(QUERIES["may_send"], params))

    async def deny(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED or PARKED → DENIED; see ports.Journal."""
        params = {**verdict_params(call, verdict), "from_state": call.state, "known_review_id": call.review_id}
        async with self._database.scoped(scope) as tx:
            row = await tx.fetch_one(QUERIES["deny_call"], params)
            if row is None:
                return None
            ask_notices(tx, call, verdict.obligations.notices)
            return await self._rows.ended(tx, row, with_contents=True)

    async def end_unsent(self, scope: Scope, call: Call, outcome: Outcome, verdict: Verdict) -> Call | None:
        """INTENDED → FAILED; see ports.Journal."""
        async with self._database.scoped(scope) as tx:
            params = await self._outcome_params(tx, call, outcome)
            row = await tx.fetch_one(QUERIES["end_unsent"], params)
            if row is None:
                return None
            ask_notices(tx, call, verdict.obligations.notices)
            ended = await self._rows.ended(tx, row, with_contents=True)
            crash_point("gateway.call.before_unsent_end")
            return ended

    async def finish(
        self, scope: Scope, call: Call, outcome: Outcome, given_back: tuple[RateLimit, ...] = ()
    ) -> Call | None:
        """Journal how a dispatch ended; see ports.Journal."""
        try:
            return await self._finish(scope, call, outcome, given_back)
        except _MovedOnError:
            return None

    async def _finish(self, scope: Scope, call: Call, outcome: Outcome, given_back: tuple[RateLimit, ...]) -> Call:
        async with self._database.scoped(scope) as tx:
            if given_back:
                keys = await self._keys.tenant_keys(tx, scope.tenant)
                for params in _named(keys, scope.tenant, given_back):
                    await tx.execute(QUERIES["give_rate"], {**params, "dispatch_time": call.dispatch_time})
            row = await tx.fetch_one(QUERIES["finish_call"], await self._outcome_params(tx, call, outcome))
            if row is None:
                raise _MovedOnError
            if row["result"] is not None:
                note(tx, scope, map(Fact, row["facts"]), source=f"skill:{call.skill}")
            if outcome.whole:
                await self._keep_whole(tx, call, outcome.whole)
            ended = await self._rows.ended(tx, row, with_contents=True)
            crash_point("gateway.call.before_end")
            return ended

    async def _outcome_params(self, tx: Tx, call: Call, outcome: Outcome) -> dict[str, Any]:
        result = None
        if outcome.state is CallState.SUCCEEDED:
            key = await self._keys.subject_key(tx, call.tenant, call.user)
            result = seal(key, outcome.result, place(call.tenant, "result", call.id))
        return {
            "tenant": call.tenant,
            "id": call.id,
            "dispatches": call.dispatches,
            "state": outcome.state,
            "result": result,
            "error_code": outcome.error_code,
            "agent_message": outcome.agent_message,
            "facts": sorted(outcome.facts) if result is not None else [],
            "fallback": outcome.fallback,
            "full_result_bytes": len(outcome.whole),
            "full_result_sha256": outcome.whole_sha256,
        }

    async def _keep_whole(self, tx: Tx, call: Call, whole: bytes) -> None:
        """Keep a whole result while the quota of its user and tenant has room, after what is too old has gone."""
        key = await self._keys.subject_key(tx, call.tenant, call.user)
        params = {
            "tenant": call.tenant,
            "id": call.id,
            "user": call.user,
            "content": seal(key, whole, _whole_place(call.tenant, call.id)),
            "size_bytes": len(whole),
            "hours": self._quota.hours,
            "user_bytes_max": self._quota.user_bytes_max,
            "tenant_bytes_max": self._quota.tenant_bytes_max,
        }
        for name in ("lock_full_results", "sweep_full_results", "keep_full_result"):
            tx.defer(QUERIES[name], params)

    async def full_result(self, scope: Scope, call: Call) -> bytes:
        """Give the whole of a cut result; see ports.Journal."""
        params = {"tenant": scope.tenant, "id": call.id, "hours": self._quota.hours}
        async with self._database.scoped(scope) as tx:
            sealed = await tx.fetch_value(QUERIES["full_result"], params)
            if sealed is None:
                return b""
            key = await self._keys.by_id(tx, scope.tenant, key_id_of(sealed))
            return open_sealed(key, sealed, _whole_place(scope.tenant, call.id))

    async def expire(self, limit: int) -> int:
        """Make UNKNOWN of overdue calls in all tenants; see ports.Journal."""
        async with self._database.unscoped() as tx:
            overdue = await tx.fetch_all(QUERIES["overdue_calls"], {"limit": limit})
        expired = 0
        for entry in overdue:
            try:
                async with self._database.tenant(entry["tenant"]) as tx:
                    found = await self._rows.expire(tx, entry["tenant"], entry["call_id"], with_contents=False)
            except MemoryOSError as error:  # one bad row does not keep the others waiting
                _log.warning("call not expired", extra={"call_id": entry["call_id"], "reason": error.reason})
            else:
                expired += found is not None
        return expired

    async def page_key(self, scope: Scope) -> bytes:
        """Give the tenant's key for page tokens."""
        async with self._database.scoped(scope) as tx:
            return (await self._keys.tenant_keys(tx, scope.tenant)).pages


class _MovedOnError(Exception):
    """The call is not where it was read: undo the transaction."""


async def _take(tx: Tx, keys: TenantKeys, tenant: str, rates: tuple[RateLimit, ...]) -> None:
    """Take what the call costs, or nothing: raising undoes the transaction."""
    for params in _named(keys, tenant, rates):
        row = await tx.fetch_one(QUERIES["take_rate"], params)
        assert row is not None, "an upsert gives its row"
        if not row["fits"]:
            raise RateExceeded(row["left_s"])
    if rates:
        tx.defer(QUERIES["sweep_rates"], {"tenant": tenant})
        crash_point("gateway.call.while_limiting")


def _named(keys: TenantKeys, tenant: str, rates: tuple[RateLimit, ...]) -> list[dict[str, Any]]:
    """Give the counters of rates in the one order in which they are locked, before any call: nobody waits in a ring."""
    named = [
        {
            "tenant": tenant,
            "key_hmac": keys.digest_hmac(f"rate:{rate.key}"),
            "window_s": rate.window_s,
            "cost": Decimal(repr(rate.cost)),  # .1 + .2 is .3 for money
            "limit": Decimal(repr(rate.limit)),
        }
        for rate in rates
    ]
    return sorted(named, key=lambda params: (params["key_hmac"], params["window_s"]))


def _whole_place(tenant: str, call_id: str) -> bytes:
    return aad(tenant, "toolgateway.full_results.content", call_id)
