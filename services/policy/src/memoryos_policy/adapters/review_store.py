"""Reviews and votes in PostgreSQL. A review is moved by compare-and-set only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from memoryos_audit import record
from memoryos_core.canonical import canonical_json
from memoryos_core.crashpoints import crash_point
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, seal
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.idempotency import Idempotency

from memoryos_policy.adapters.decision_rows import decision_of
from memoryos_policy.adapters.review_rows import comment_place, opened_event, resolved_event, review_of, whole_review
from memoryos_policy.adapters.sealed_inputs import input_of
from memoryos_policy.domain.decisions import Decision
from memoryos_policy.domain.reviews import Review, Verdict, state_after, verdicts_of
from memoryos_policy.domain.verdicts import Effect
from memoryos_policy.errors import (
    DecisionNotFound,
    ReviewClosed,
    ReviewDigestMismatch,
    ReviewNotAsked,
    ReviewNotFound,
)
from memoryos_policy.ports import Ballot, Opening

_RESOLVE_METHOD: Final = "memoryos.policy.v1.Reviews/ResolveReview"
_QUERIES: Final = queries.load("memoryos_policy", "reviews.sql")
_DECISION: Final = queries.load("memoryos_policy", "decision_log.sql")["decision"]


class PostgresReviewStore:
    """ReviewStore on the schema policy."""

    def __init__(self, database: Database, keyring: KeyRing[Tx], idempotency: Idempotency, ids: IdSource) -> None:
        self._database = database
        self._keyring = keyring
        self._idempotency = idempotency
        self._ids = ids

    async def open(self, scope: Scope, opening: Opening) -> Review:
        """See ReviewStore."""
        async with self._database.scoped(scope) as tx:
            digest_hmac = (await self._keyring.tenant_keys(tx, scope.tenant)).digest_hmac(opening.action_digest)
            known = await self._of_call(tx, scope, opening.call_id)
            if known is None:
                decision = await self._asked(tx, scope, opening, digest_hmac)
                await self._insert(tx, scope, decision)
                known = await self._of_call(tx, scope, opening.call_id)
            if known is None or known.user != scope.user:
                raise ReviewNotFound
            if known.action_digest_hmac != digest_hmac:
                raise ReviewDigestMismatch
            return known

    async def vote(self, scope: Scope, ballot: Ballot, check: Callable[[Review, Scope], None]) -> Review:
        """See ReviewStore."""
        body = canonical_json([ballot.review_id, ballot.verdict.value, ballot.comment])
        async with self._database.scoped(scope) as tx:
            done = await self._idempotency.begin(tx, scope, _RESOLVE_METHOD, ballot.request_id, body)
            if done is not None:
                review = await self._whole(tx, scope, ballot.review_id)
                check(review, scope)
                return review
            key = {"tenant": scope.tenant, "review_id": ballot.review_id}
            # Votes on one review queue up here, so that each counts the ones before it.
            if await tx.fetch_one(_QUERIES["lock_review"], key) is None:
                raise ReviewNotFound
            check(await self._whole(tx, scope, ballot.review_id), scope)
            await self._put_vote(tx, scope, ballot)
            votes = [(row["reviewer"], Verdict(row["verdict"])) for row in await tx.fetch_all(_QUERIES["votes"], key)]
            review = await self._whole(tx, scope, ballot.review_id)
            state = state_after(review.quorum, verdicts_of(votes))
            if not await tx.execute(_QUERIES["move_review"], {**key, "state": state.value}):
                raise ReviewClosed
            review = await self._whole(tx, scope, ballot.review_id)
            record(tx, resolved_event(scope, review, ballot))
            await self._idempotency.finish(tx, scope, _RESOLVE_METHOD, ballot.request_id, ballot.review_id.encode())
            crash_point("policy.review.before_commit")
            return review

    async def _asked(self, tx: Tx, scope: Scope, opening: Opening, digest_hmac: str) -> Decision:
        """Give the decision that asks for this review of this action of the scope's own user."""
        params = {"tenant": scope.tenant, "decision_id": opening.decision_id}
        row = await tx.fetch_one(_DECISION, params)
        if row is None or row["user_name"] != scope.user:
            raise DecisionNotFound
        decision = decision_of(row)
        if decision.call_id != opening.call_id or decision.effect is not Effect.MANUAL_REVIEW:
            raise ReviewNotAsked
        if decision.action_digest_hmac != digest_hmac:
            raise ReviewDigestMismatch
        return decision

    async def _insert(self, tx: Tx, scope: Scope, decision: Decision) -> None:
        assert decision.approval is not None
        document = await input_of(self._keyring, tx, scope, decision.id)
        if document is None:
            raise DecisionNotFound  # its user is being erased
        review_id = self._ids.new("rev")
        params = {
            "tenant": scope.tenant,
            "review_id": review_id,
            "call_id": decision.call_id,
            "decision_id": decision.id,
            "group": decision.approval.group,
            "quorum": decision.approval.quorum,
            "expires_in_s": decision.approval.expires_in_s,
            "skill": decision.skill,
            "skill_version": document["action"]["version"],
            "effect_class": document["action"]["effect_class"],
            "risk": decision.risk,
            "resource_type": document["resource"]["type"],
            "action_digest_hmac": decision.action_digest_hmac,
            "user_name": decision.user,
            "chain": list(decision.chain),
            "reasons": [reason.text for reason in decision.reasons],
        }
        if await tx.execute(_QUERIES["insert_review"], params):  # else another one opened it in this instant
            record(tx, opened_event(scope, review_id, params))

    async def _put_vote(self, tx: Tx, scope: Scope, ballot: Ballot) -> None:
        data_key = await self._keyring.subject_key(tx, scope.tenant, scope.user)
        place = comment_place(scope.tenant, ballot.review_id, scope.user)
        params = {
            "tenant": scope.tenant,
            "review_id": ballot.review_id,
            "reviewer": scope.user,
            "verdict": ballot.verdict.value,
            "comment": seal(data_key, ballot.comment.encode(), place),
        }
        await tx.execute(_QUERIES["put_vote"], params)

    async def _of_call(self, tx: Tx, scope: Scope, call_id: str) -> Review | None:
        row = await tx.fetch_one(_QUERIES["review_of_call"], {"tenant": scope.tenant, "call_id": call_id})
        return review_of(row) if row else None

    async def _whole(self, tx: Tx, scope: Scope, review_id: str) -> Review:
        return await whole_review(self._keyring, tx, scope, review_id)
