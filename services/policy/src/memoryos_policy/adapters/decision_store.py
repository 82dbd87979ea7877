"""Decisions in PostgreSQL: the row, its sealed input and its audit row in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from memoryos_audit import Actor, AuditEvent, Kind, Outcome, record
from memoryos_core.canonical import canonical_json
from memoryos_core.clock import Clock
from memoryos_core.crashpoints import crash_point
from memoryos_core.ids import IdSource
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, TenantKeys, aad, seal
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.transaction import Row
from memoryos_telemetry.context import current_trace_id
from psycopg.types.json import Jsonb

from memoryos_policy.domain.decisions import Decision, Draft
from memoryos_policy.domain.questions import ReviewFacts
from memoryos_policy.domain.verdicts import Approval, Effect, Reason
from memoryos_policy.errors import DecisionNotFound
from memoryos_policy.ports import CallAction, DecisionFilter, Page

SERVICE: Final = "policy"
_LIST_METHOD: Final = "memoryos.policy.v1.Policy/ListDecisions"
_QUERIES: Final = queries.load("memoryos_policy")
_CODES_CHARS_MAX: Final = 500


class PostgresDecisionStore:
    """DecisionStore on the schema policy."""

    def __init__(self, database: Database, keyring: KeyRing[Tx], ids: IdSource, clock: Clock) -> None:
        self._database = database
        self._keyring = keyring
        self._ids = ids
        self._clock = clock

    async def reviews_of(self, scope: Scope, calls: Collection[CallAction]) -> Mapping[CallAction, ReviewFacts]:
        """See DecisionStore."""
        async with self._database.scoped(scope) as tx:
            params = {"tenant": scope.tenant, "call_ids": [call_id for call_id, _ in calls]}
            rows = await tx.fetch_alone(_QUERIES["reviews_of_calls"], params)
            if not rows:
                return {}
            keys = await self._keyring.tenant_keys(tx, scope.tenant)
        by_call = {row["call_id"]: row for row in rows}
        return {(call, digest): _facts(by_call[call], keys, digest) for call, digest in calls if call in by_call}

    async def keep(self, scope: Scope, drafts: Sequence[Draft]) -> Sequence[Decision]:
        """See DecisionStore."""
        async with self._database.scoped(scope) as tx:
            keys = await self._keyring.tenant_keys(tx, scope.tenant)
            data_key = await self._keyring.subject_key(tx, scope.tenant, scope.user)
            kept = []
            for draft in drafts:
                decision_id = self._ids.new("dec")
                sealed = seal(data_key, canonical_json(dict(draft.document)), input_place(scope.tenant, decision_id))
                params = _params(scope, draft, decision_id, keys.digest_hmac(draft.question.action_digest), sealed)
                create_time: datetime = await tx.fetch_value(_QUERIES["insert_decision"], params)
                kept.append(_decision(scope, draft, decision_id, params["action_digest_hmac"], create_time))
            record(tx, _event(scope, drafts, kept))
            crash_point("policy.decide.before_commit")
        return kept

    async def note_listing(self, scope: Scope, service: str, drafts: Sequence[Draft]) -> Sequence[Decision]:
        """See DecisionStore."""
        now = self._clock.now()
        async with self._database.scoped(scope) as tx:
            allowed = sum(draft.verdict.effect is Effect.ALLOW for draft in drafts)
            event = AuditEvent(
                kind=Kind.DECISION,
                actor=Actor.of(scope),
                service=SERVICE,
                count=len(drafts),
                target_type="skill",
                target_ids=[draft.question.action.skill for draft in drafts],
                attributes={
                    "purpose": "list",
                    "allowed": allowed,
                    "caller_service": service,
                    "bundle_revision": drafts[0].verdict.revision,
                },
            )
            record(tx, event)
        return [_decision(scope, draft, "", "", now) for draft in drafts]

    async def find(self, scope: Scope, decision_id: str) -> Decision:
        """See DecisionStore."""
        async with self._database.scoped(scope) as tx:
            params = {"tenant": scope.tenant, "decision_id": decision_id}
            row = await tx.fetch_one(_QUERIES["decision"], params)
        if row is None:
            raise DecisionNotFound
        return decision_of(row)

    async def newest(self, scope: Scope, wanted: DecisionFilter, page: Page) -> tuple[Sequence[Decision], str]:
        """See DecisionStore."""
        effect = wanted.effect.value if wanted.effect else None
        filter_bytes = canonical_json([wanted.user, wanted.call_id, effect])
        async with self._database.scoped(scope) as tx:
            tokens = PageTokens((await self._keyring.tenant_keys(tx, scope.tenant)).pages)
            position = tokens.decode(scope, _LIST_METHOD, filter_bytes, page.token)
            rows = await tx.fetch_all(
                _QUERIES["decisions_newest"],
                {
                    "tenant": scope.tenant,
                    "user": wanted.user,
                    "chain": list(scope.chain),
                    "call_id": wanted.call_id,
                    "effect": effect,
                    "before": position[0] if position else None,
                    "limit": page.size + 1,
                },
            )
        decisions = [decision_of(row) for row in rows[: page.size]]
        more = len(rows) > page.size
        return decisions, tokens.encode(scope, _LIST_METHOD, filter_bytes, (decisions[-1].id,)) if more else ""


def input_place(tenant: str, decision_id: str) -> bytes:
    """Give what binds a sealed input to its row."""
    return aad(tenant, "policy.decisions.input", decision_id)


def decision_of(row: Row) -> Decision:
    """Give the decision of a row of the queries `decision` and `decisions_newest`."""
    approval = row["approval"]
    return Decision(
        id=row["decision_id"],
        effect=Effect(row["effect"]),
        reasons=tuple(Reason(r["code"], r["policy"], r["text"]) for r in row["reasons"]),
        agent_message=row["agent_message"],
        approval=Approval(approval["group"], approval["quorum"], approval["expires_in_s"]) if approval else None,
        bundle_revision=row["bundle_revision"],
        bundle_confirm_time=row["bundle_confirm_time"],
        create_time=row["create_time"],
        call_id=row["call_id"],
        skill=row["skill"],
        action_digest_hmac=row["action_digest_hmac"],
        user=row["user_name"],
        chain=tuple(row["chain"]),
        trace_id=row["trace_id"],
        review_id=row["review_id"] or "",
    )


def _facts(row: Row, keys: TenantKeys, action_digest: str) -> ReviewFacts:
    return ReviewFacts(
        id=row["review_id"],
        state=row["state"],
        group=row["group_name"],
        approvals=row["approvals"],
        same_action=row["action_digest_hmac"] == keys.digest_hmac(action_digest),
    )


def _params(scope: Scope, draft: Draft, decision_id: str, digest_hmac: str, sealed: bytes) -> dict[str, Any]:
    question, verdict = draft.question, draft.verdict
    approval = verdict.approval
    return {
        "tenant": scope.tenant,
        "decision_id": decision_id,
        "call_id": question.call_id,
        "attempt": question.attempt,
        "skill": question.action.skill,
        "skill_version": question.action.version,
        "action_digest_hmac": digest_hmac,
        "effect": verdict.effect.value,
        "reasons": Jsonb([{"code": r.code, "policy": r.policy, "text": r.text} for r in verdict.reasons]),
        "agent_message": verdict.agent_message,
        "approval": Jsonb({"group": approval.group, "quorum": approval.quorum, "expires_in_s": approval.expires_in_s})
        if approval
        else None,
        "bundle_revision": verdict.revision,
        "bundle_confirm_time": verdict.confirm_time,
        "review_id": draft.review_id or None,
        "user_name": scope.user,
        "chain": list(scope.chain),
        "session_id": scope.session_id,
        "task_id": scope.task_id,
        "service": draft.service,
        "trace_id": current_trace_id(),
        "input": sealed,
    }


def _decision(scope: Scope, draft: Draft, decision_id: str, digest_hmac: str, create_time: datetime) -> Decision:
    question, verdict = draft.question, draft.verdict
    return Decision(
        id=decision_id,
        effect=verdict.effect,
        reasons=verdict.reasons,
        agent_message=verdict.agent_message,
        approval=verdict.approval,
        bundle_revision=verdict.revision,
        bundle_confirm_time=verdict.confirm_time,
        create_time=create_time.astimezone(UTC),
        call_id=question.call_id,
        skill=question.action.skill,
        action_digest_hmac=digest_hmac,
        user=scope.user,
        chain=scope.chain,
        trace_id=current_trace_id(),
        review_id=draft.review_id,
    )


def _event(scope: Scope, drafts: Sequence[Draft], kept: Sequence[Decision]) -> AuditEvent:
    """Give the one audit row of these decisions; a single one is joined by its own columns, too."""
    first = kept[0]
    alone = len(kept) == 1
    codes = ",".join(reason.code for reason in first.reasons)[:_CODES_CHARS_MAX] if alone else ""
    return AuditEvent(
        kind=Kind.DECISION,
        actor=Actor.of(scope),
        service=SERVICE,
        outcome=Outcome.DENIED if all(one.effect is Effect.DENY for one in kept) else Outcome.OK,
        reason=codes if first.effect is Effect.DENY else "",
        target_type="decision",
        target_ids=[one.id for one in kept],
        call_id=first.call_id if alone else "",
        decision_id=first.id if alone else "",
        count=len(kept),
        attributes={
            "effect": first.effect.value if alone else "several",
            "skill": first.skill if alone else "several",
            "bundle_revision": first.bundle_revision,
            "caller_service": drafts[0].service,
            "review_id": first.review_id,
        },
    )
