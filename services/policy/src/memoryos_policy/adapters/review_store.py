"""Reviews and votes in PostgreSQL. A review is moved by compare-and-set only."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from memoryos_audit import Actor, AuditEvent, Kind, Outcome, record
from memoryos_core.canonical import canonical_json
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.ids import IdSource
from memoryos_core.paging import PageTokens
from memoryos_core.scope import Scope
from memoryos_core.sealing import KeyRing, aad, key_id_of, open_sealed, seal
from memoryos_postgres import Database, Tx, queries
from memoryos_postgres.idempotency import Idempotency
from memoryos_postgres.transaction import Row

from memoryos_policy.adapters.decision_rows import SERVICE, decision_of, input_place
from memoryos_policy.domain.decisions import Decision
from memoryos_policy.domain.reviews import AUDITOR, Review, ReviewState, Verdict, Vote, reviewer_groups, state_after
from memoryos_policy.domain.verdicts import Effect
from memoryos_policy.errors import (
    DecisionNotFound,
    ReviewClosed,
    ReviewDigestMismatch,
    ReviewNotAsked,
    ReviewNotFound,
)
from memoryos_policy.ports import Ballot, Opening, Page

_LIST_METHOD: Final = "memoryos.policy.v1.Reviews/ListReviews"
_RESOLVE_METHOD: Final = "memoryos.policy.v1.Reviews/ResolveReview"
_QUERIES: Final = queries.load("memoryos_policy")


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

    async def find(self, scope: Scope, review_id: str) -> Review:
        """See ReviewStore."""
        async with self._database.scoped(scope) as tx:
            return await self._whole(tx, scope, review_id)

    async def newest(self, scope: Scope, state: ReviewState | None, page: Page) -> tuple[Sequence[Review], str]:
        """See ReviewStore."""
        filter_bytes = canonical_json([state.value if state else None])
        async with self._database.scoped(scope) as tx:
            tokens = PageTokens((await self._keyring.tenant_keys(tx, scope.tenant)).pages)
            position = tokens.decode(scope, _LIST_METHOD, filter_bytes, page.token)
            rows = await tx.fetch_all(
                _QUERIES["reviews_newest"],
                {
                    "tenant": scope.tenant,
                    "all": AUDITOR in scope.roles,
                    "user": scope.user,
                    "chain": list(scope.chain),
                    "groups": reviewer_groups(scope),
                    "state": state.value if state else None,
                    "before": position[0] if position else None,
                    "limit": page.size + 1,
                },
            )
        reviews = [_review(row) for row in rows[: page.size]]
        more = len(rows) > page.size
        return reviews, tokens.encode(scope, _LIST_METHOD, filter_bytes, (reviews[-1].id,)) if more else ""

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
            verdicts = [Verdict(row["verdict"]) for row in await tx.fetch_all(_QUERIES["votes"], key)]
            review = await self._whole(tx, scope, ballot.review_id)
            state = state_after(review.quorum, verdicts)
            if not await tx.execute(_QUERIES["move_review"], {**key, "state": state.value}):
                raise ReviewClosed
            review = await self._whole(tx, scope, ballot.review_id)
            record(tx, _resolved(scope, review, ballot))
            await self._idempotency.finish(tx, scope, _RESOLVE_METHOD, ballot.request_id, ballot.review_id.encode())
            crash_point("policy.review.before_commit")
            return review

    async def _asked(self, tx: Tx, scope: Scope, opening: Opening, digest_hmac: str) -> Decision:
        """Give the decision that asks for this review of this action of the scope's own user."""
        params = {"tenant": scope.tenant, "decision_id": opening.decision_id}
        row = await tx.fetch_one(_QUERIES["decision"], params)
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
            "action_digest_hmac": decision.action_digest_hmac,
            "user_name": decision.user,
            "chain": list(decision.chain),
            "reasons": [reason.text for reason in decision.reasons],
        }
        if not await tx.execute(_QUERIES["insert_review"], params):
            return  # another one opened it in this instant
        event = AuditEvent(
            kind=Kind.REVIEW_OPENED,
            actor=Actor.of(scope),
            service=SERVICE,
            target_type="review",
            target_ids=[review_id],
            call_id=decision.call_id,
            decision_id=decision.id,
            attributes={"group": decision.approval.group, "quorum": decision.approval.quorum},
        )
        record(tx, event)

    async def _put_vote(self, tx: Tx, scope: Scope, ballot: Ballot) -> None:
        data_key = await self._keyring.subject_key(tx, scope.tenant, scope.user)
        place = _comment_place(scope.tenant, ballot.review_id, scope.user)
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
        return _review(row) if row else None

    async def _whole(self, tx: Tx, scope: Scope, review_id: str) -> Review:
        key = {"tenant": scope.tenant, "review_id": review_id}
        row = await tx.fetch_one(_QUERIES["review"], key)
        if row is None:
            raise ReviewNotFound
        votes = [await self._vote(tx, scope, review_id, vote) for vote in await tx.fetch_all(_QUERIES["votes"], key)]
        arguments = await self._arguments(tx, scope, row["decision_id"])
        return replace(_review(row), votes=tuple(votes), arguments=arguments)

    async def _vote(self, tx: Tx, scope: Scope, review_id: str, row: Row) -> Vote:
        place = _comment_place(scope.tenant, review_id, row["reviewer"])
        comment = await self._opened(tx, scope, row["comment"], place)
        return Vote(row["reviewer"], Verdict(row["verdict"]), comment.decode(), row["create_time"])

    async def _arguments(self, tx: Tx, scope: Scope, decision_id: str) -> bytes:
        """Give the arguments that would run, out of the input that was decided on; empty once erased."""
        params = {"tenant": scope.tenant, "decision_id": decision_id}
        sealed: bytes = await tx.fetch_value(_QUERIES["decision_input"], params)
        document = await self._opened(tx, scope, sealed, input_place(scope.tenant, decision_id))
        # Our own canonical text: it was parsed strictly before it was sealed.
        return canonical_json(json.loads(document)["args"]) if document else b""

    async def _opened(self, tx: Tx, scope: Scope, sealed: bytes, place: bytes) -> bytes:
        try:
            key = await self._keyring.by_id(tx, scope.tenant, key_id_of(sealed))
        except SealedKeyUnavailable:
            return b""  # its data subject was erased
        return open_sealed(key, sealed, place)


def _comment_place(tenant: str, review_id: str, reviewer: str) -> bytes:
    return aad(tenant, "policy.review_votes.comment", review_id, reviewer)


def _review(row: Row) -> Review:
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
        action_digest_hmac=row["action_digest_hmac"],
        reasons=tuple(row["reasons"]),
        create_time=row["create_time"],
        expire_time=row["expire_time"],
        resolve_time=row["resolve_time"],
        version=row["version"],
    )


def _resolved(scope: Scope, review: Review, ballot: Ballot) -> AuditEvent:
    attributes: dict[str, Any] = {"verdict": ballot.verdict.value, "state": review.state.value, "group": review.group}
    return AuditEvent(
        kind=Kind.REVIEW_RESOLVED,
        actor=Actor.of(scope),
        service=SERVICE,
        outcome=Outcome.OK,
        target_type="review",
        target_ids=[review.id],
        call_id=review.call_id,
        decision_id=review.decision_id,
        attributes=attributes,
    )
