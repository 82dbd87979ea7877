"""Between reviews and the rows that keep them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memoryos_audit import Actor, AuditEvent, Kind, Outcome
from memoryos_core.canonical import canonical_json
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, aad
from memoryos_postgres import Tx, queries
from memoryos_postgres.transaction import Row

from memoryos_policy.adapters.decision_rows import SERVICE
from memoryos_policy.adapters.sealed_inputs import input_of, opened
from memoryos_policy.domain.masking import masked_input
from memoryos_policy.domain.reviews import Review, ReviewState, Verdict, Vote
from memoryos_policy.errors import ReviewNotFound
from memoryos_policy.ports import Ballot

_QUERIES = queries.load("memoryos_policy", "reviews.sql")


def review_of(row: Row) -> Review:
    """Give the review of a row of `review_columns`, without votes and arguments."""
    return Review(
        id=row["review_id"],
        call_id=row["call_id"],
        decision_id=row["decision_id"],
        state=ReviewState(row["state"]),
        group=row["group_name"],
        quorum=row["quorum"],
        user=row["user_name"],
        chain=tuple(row["chain"]),
        skill=row["skill"],
        skill_version=row["skill_version"],
        effect_class=row["effect_class"],
        risk=row["risk"],
        resource_type=row["resource_type"],
        action_digest_hmac=row["action_digest_hmac"],
        reasons=tuple(row["reasons"]),
        create_time=row["create_time"],
        expire_time=row["expire_time"],
        resolve_time=row["resolve_time"],
        version=row["version"],
    )


async def whole_review(keyring: KeyRing[Tx], tx: Tx, scope: Scope, review_id: str) -> Review:
    """Give a review with its votes and masked arguments, or raise ReviewNotFound.

    The arguments are those that would run, out of the input that was decided
    on; they and the resource are empty once their user is erased.
    """
    key = {"tenant": scope.tenant, "review_id": review_id}
    row = await tx.fetch_one(_QUERIES["review"], key)
    if row is None:
        raise ReviewNotFound
    votes = [await _vote(keyring, tx, scope, review_id, vote) for vote in await tx.fetch_all(_QUERIES["votes"], key)]
    review = replace(review_of(row), votes=tuple(votes))
    document = await input_of(keyring, tx, scope, row["decision_id"])
    if document is None:
        return review
    shown = masked_input(document)
    return replace(review, arguments=canonical_json(shown["args"]), resource_id=shown["resource"]["id"])


def comment_place(tenant: str, review_id: str, reviewer: str) -> bytes:
    """Give what binds a sealed comment to its row."""
    return aad(tenant, "policy.review_votes.comment", review_id, reviewer)


def opened_event(scope: Scope, review_id: str, params: dict[str, Any]) -> AuditEvent:
    """Give the audit row of a review that was opened with these parameters of `insert_review`."""
    return AuditEvent(
        kind=Kind.REVIEW_OPENED,
        actor=Actor.of(scope),
        service=SERVICE,
        target_type="review",
        target_ids=[review_id],
        call_id=params["call_id"],
        decision_id=params["decision_id"],
        attributes={"group": params["group"], "quorum": params["quorum"]},
    )


def resolved_event(scope: Scope, review: Review, ballot: Ballot) -> AuditEvent:
    """Give the audit row of a vote."""
    return AuditEvent(
        kind=Kind.REVIEW_RESOLVED,
        actor=Actor.of(scope),
        service=SERVICE,
        outcome=Outcome.OK,
        target_type="review",
        target_ids=[review.id],
        call_id=review.call_id,
        decision_id=review.decision_id,
        attributes={"verdict": ballot.verdict.value, "state": review.state.value, "group": review.group},
    )


async def _vote(keyring: KeyRing[Tx], tx: Tx, scope: Scope, review_id: str, row: Row) -> Vote:
    place = comment_place(scope.tenant, review_id, row["reviewer"])
    comment = await opened(keyring, tx, scope, row["comment"], place)
    return Vote(row["reviewer"], Verdict(row["verdict"]), comment.decode(), row["create_time"])
