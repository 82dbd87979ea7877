"""Between decisions and the rows that keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from memoryos_audit import Actor, AuditEvent, Kind, Outcome
from memoryos_core.canonical import canonical_json
from memoryos_core.scope import Scope
from memoryos_core.sealing import DataKey, aad, seal
from memoryos_postgres.database import array_literal
from memoryos_postgres.transaction import Row
from psycopg.types.json import Jsonb

from memoryos_policy.adapters.obligation_parser import parse_obligation
from memoryos_policy.domain.decisions import Decision, Draft
from memoryos_policy.domain.obligations import Obligation, Patch, RewriteArgs, document_of, values_of, without_values
from memoryos_policy.domain.verdicts import Effect, Reason

SERVICE: Final = "policy"
_CODES_CHARS_MAX: Final = 500


def input_place(tenant: str, decision_id: str) -> bytes:
    """Give what binds a sealed input to its row."""
    return aad(tenant, "policy.decisions.input", decision_id)


def rewrites_place(tenant: str, decision_id: str) -> bytes:
    """Give what binds the sealed values of rewrites to their row."""
    return aad(tenant, "policy.decisions.rewrites", decision_id)


def decision_of(row: Row) -> Decision:
    """Give the decision of a row of the queries `decision` and `decisions_newest`; rewrites come without values."""
    return Decision(
        id=row["decision_id"],
        effect=Effect(row["effect"]),
        reasons=tuple(Reason(r["code"], r["policy"], r["text"]) for r in row["reasons"]),
        agent_message=row["agent_message"],
        obligations=tuple(_obligation(document) for document in row["obligations"]),
        risk=row["risk"],
        bundle_revision=row["bundle_revision"],
        bundle_confirm_time=row["bundle_confirm_time"],
        create_time=row["create_time"],
        call_id=row["call_id"],
        skill=row["skill"],
        action_digest_hmac=row["action_digest_hmac"],
        user=row["user_name"],
        chain=tuple(row["chain"]),
        session_id=row["session_id"],
        task_id=row["task_id"],
        trace_id=row["trace_id"],
        review_id=row["review_id"] or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDecision:
    """A draft with the names under which it is kept."""

    scope: Scope
    draft: Draft
    id: str
    digest_hmac: str
    trace_id: str


def row_of(new: NewDecision, data_key: DataKey) -> tuple[Any, ...]:
    """Give the parameters of one row of `insert_decisions`, in the order of NEW_ROW.

    Each has the same type in every row, empty text where there is nothing: a statement is prepared once.
    """
    scope, question, verdict = new.scope, new.draft.question, new.draft.verdict
    values = values_of(verdict.obligations)
    place = rewrites_place(scope.tenant, new.id)
    return (
        scope.tenant,
        new.id,
        question.call_id,
        question.attempt,
        question.action.skill,
        question.action.version,
        new.digest_hmac,
        verdict.effect.value,
        Jsonb([{"code": r.code, "policy": r.policy, "text": r.text} for r in verdict.reasons]),
        verdict.agent_message,
        Jsonb([without_values(document_of(one)) for one in verdict.obligations]),
        seal(data_key, canonical_json(values), place) if values else b"",
        verdict.risk,
        verdict.revision,
        verdict.confirm_time.isoformat() if verdict.confirm_time else "",
        new.draft.review_id,
        scope.user,
        array_literal(scope.chain),
        scope.session_id,
        scope.task_id,
        new.draft.service,
        new.trace_id,
        seal(data_key, canonical_json(dict(new.draft.document)), input_place(scope.tenant, new.id)),
    )


NEW_ROW: Final = (
    "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, nullif(%s, ''::bytea), %s, %s, nullif(%s, '')::timestamptz,"
    " nullif(%s, ''), %s, %s::text[], %s, %s, %s, %s, %s)"
)


def kept(new: NewDecision, create_time: datetime) -> Decision:
    """Give the decision of a draft, as it is kept."""
    scope, question, verdict = new.scope, new.draft.question, new.draft.verdict
    return Decision(
        id=new.id,
        effect=verdict.effect,
        reasons=verdict.reasons,
        agent_message=verdict.agent_message,
        obligations=verdict.obligations,
        risk=verdict.risk,
        bundle_revision=verdict.revision,
        bundle_confirm_time=verdict.confirm_time,
        create_time=create_time.astimezone(UTC),
        call_id=question.call_id,
        skill=question.action.skill,
        action_digest_hmac=new.digest_hmac,
        user=scope.user,
        chain=scope.chain,
        session_id=scope.session_id,
        task_id=scope.task_id,
        trace_id=new.trace_id,
        review_id=new.draft.review_id,
    )


def event_of(decisions: Sequence[NewDecision]) -> AuditEvent:
    """Give the one audit row of decisions that are kept together; a single one is joined by its own columns, too."""
    first, alone = decisions[0], len(decisions) == 1
    verdict, question = first.draft.verdict, first.draft.question
    codes = ",".join(reason.code for reason in verdict.reasons)[:_CODES_CHARS_MAX] if alone else ""
    denied = all(one.draft.verdict.effect is Effect.DENY for one in decisions)
    return AuditEvent(
        kind=Kind.DECISION,
        actor=Actor.of(first.scope),
        service=SERVICE,
        outcome=Outcome.DENIED if denied else Outcome.OK,
        reason=codes if verdict.effect is Effect.DENY else "",
        target_type="decision",
        target_ids=[one.id for one in decisions],
        call_id=question.call_id if alone else "",
        decision_id=first.id if alone else "",
        trace_id=first.trace_id,
        count=len(decisions),
        attributes={
            "effect": verdict.effect.value if alone else "several",
            "skill": question.action.skill if alone else "several",
            "bundle_revision": verdict.revision,
            "caller_service": first.draft.service,
            "review_id": first.draft.review_id,
        },
    )


def listing_event(scope: Scope, service: str, drafts: Sequence[Draft]) -> AuditEvent:
    """Give the one audit row of a listing."""
    return AuditEvent(
        kind=Kind.DECISION,
        actor=Actor.of(scope),
        service=SERVICE,
        count=len(drafts),
        target_type="skill",
        target_ids=[draft.question.action.skill for draft in drafts],
        attributes={
            "purpose": "list",
            "allowed": sum(draft.verdict.effect is Effect.ALLOW for draft in drafts),
            "caller_service": service,
            "bundle_revision": drafts[0].verdict.revision,
        },
    )


def _obligation(document: dict[str, Any]) -> Obligation:
    if document["kind"] == "rewrite_args":
        return RewriteArgs(tuple(Patch(patch["pointer"], None, withheld=True) for patch in document["patches"]))
    return parse_obligation(document)
