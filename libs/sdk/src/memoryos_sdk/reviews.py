"""Reviews: human approval of single calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memoryos.policy.v1 import policy_pb2, reviews_pb2

from memoryos_sdk.calls import Actor, actor
from memoryos_sdk.entries import json_value
from memoryos_sdk.following import resumed
from memoryos_sdk.invocation import Invocation, new_request_id
from memoryos_sdk.names import number, word
from memoryos_sdk.paging import Pager
from memoryos_sdk.times import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One reviewer's word: verdict approve or deny."""

    reviewer: str
    verdict: str
    comment: str
    create_time: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The review of one call. `arguments` are those that would run, "[masked]" where the skill says x-sensitive;
    they are None, and `resource_id` empty, for who may not resolve it."""

    id: str
    call_id: str
    decision_id: str
    state: str
    group: str
    quorum: int
    requester: Actor
    skill: str
    arguments: Any
    action_digest_hmac: str
    votes: tuple[Vote, ...]
    create_time: datetime | None
    expire_time: datetime | None
    resolve_time: datetime | None
    etag: str
    reasons: tuple[str, ...]
    skill_version: str
    effect_class: str
    risk: str
    resource_type: str
    resource_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewEvent:
    """A review as it stands after a change, without arguments and votes, and the position to go on from behind it."""

    review: Review
    position: str


class Reviews:
    """Reviews that the caller may resolve or has asked for."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    def list(self, *, state: str | None = None, page_size: int = 50) -> Pager[Review]:
        """Give reviews, newest first; `state` is pending, approved, denied or expired."""
        request = reviews_pb2.ListReviewsRequest(page_size=page_size)
        if state is not None:
            request.state = number(reviews_pb2.ReviewState, state, "state")

        async def fetch(token: str) -> tuple[list[Review], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListReviews, request)
            return [review(found) for found in answer.reviews], answer.next_page_token

        return Pager(fetch)

    async def get(self, id: str, *, timeout_s: float | None = None) -> Review:
        """Give one review."""
        request = reviews_pb2.GetReviewRequest(id=id)
        return review((await self._invocation.unary(self._stub.GetReview, request, timeout_s=timeout_s)).review)

    async def watch(self, *, position: str = "") -> AsyncGenerator[ReviewEvent, None]:
        """Give what is pending now, then reviews as they open, are voted on and end; never ends.

        A lost connection is taken up where it broke. Keep the `position` of the
        last event handled, and give it back to go on after it.
        """

        def open_at(at: str) -> AsyncGenerator[Any, None]:
            return self._invocation.stream(self._stub.WatchReviews, reviews_pb2.WatchReviewsRequest(position=at))

        async with aclosing(resumed(self._invocation, open_at, position)) as messages:
            async for message in messages:
                if message.HasField("review"):
                    yield ReviewEvent(review=review(message.review), position=message.position)

    async def approve(
        self,
        id: str,
        *,
        comment: str = "",
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Review:
        """Say that the call may be made, once."""
        return await self._resolve(reviews_pb2.VERDICT_APPROVE, id, comment, request_id, timeout_s)

    async def deny(
        self,
        id: str,
        *,
        comment: str = "",
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Review:
        """Say that it may not."""
        return await self._resolve(reviews_pb2.VERDICT_DENY, id, comment, request_id, timeout_s)

    async def _resolve(
        self, verdict: Any, review_id: str, comment: str, request_id: str | None, timeout_s: float | None
    ) -> Review:
        request = reviews_pb2.ResolveReviewRequest(
            id=review_id, verdict=verdict, comment=comment, request_id=request_id or new_request_id()
        )
        return review((await self._invocation.unary(self._stub.ResolveReview, request, timeout_s=timeout_s)).review)


def review(message: reviews_pb2.Review) -> Review:
    """Give the value of a Review message."""
    return Review(
        id=message.id,
        call_id=message.call_id,
        decision_id=message.decision_id,
        state=word(reviews_pb2.ReviewState, message.state),
        group=message.group,
        quorum=message.quorum,
        requester=actor(message.requester),
        skill=message.skill,
        arguments=json_value(message.arguments_json),
        action_digest_hmac=message.action_digest_hmac,
        votes=tuple(
            Vote(
                reviewer=vote.reviewer,
                verdict=word(reviews_pb2.Verdict, vote.verdict),
                comment=vote.comment,
                create_time=moment(vote, "create_time"),
            )
            for vote in message.votes
        ),
        create_time=moment(message, "create_time"),
        expire_time=moment(message, "expire_time"),
        resolve_time=moment(message, "resolve_time"),
        etag=message.etag,
        reasons=tuple(message.reasons),
        skill_version=message.skill_version,
        effect_class=word(policy_pb2.EffectClass, message.effect_class),
        risk=message.risk,
        resource_type=message.resource_type,
        resource_id=message.resource_id,
    )
