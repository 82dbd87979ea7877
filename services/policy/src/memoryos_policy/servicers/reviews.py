"""memoryos.policy.v1.Reviews."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from memoryos.policy.v1 import reviews_pb2, reviews_pb2_grpc
from memoryos_core.clock import Clock
from memoryos_core.errors import InvalidField
from memoryos_grpc.caller import scope as caller_scope
from memoryos_telemetry import names
from opentelemetry import trace

from memoryos_policy.domain.reviews import Review
from memoryos_policy.operations.open_review import open_review
from memoryos_policy.operations.read_reviews import get_review, list_reviews
from memoryos_policy.operations.resolve_review import resolve_review
from memoryos_policy.operations.watch_reviews import watch_reviews
from memoryos_policy.ports import Ballot, Opening, ReviewLog, ReviewStore
from memoryos_policy.servicers.answers import STATES, VERDICTS, review_message
from memoryos_policy.servicers.requests import page_of


class ReviewsServicer(reviews_pb2_grpc.ReviewsServicer):
    """Human approval of single calls."""

    def __init__(self, store: ReviewStore, log: ReviewLog, clock: Clock) -> None:
        self._store = store
        self._log = log
        self._clock = clock

    async def OpenReview(self, request: reviews_pb2.OpenReviewRequest, context: Any) -> reviews_pb2.OpenReviewResponse:
        """Open the review of a parked call."""
        opening = Opening(call_id=request.call_id, action_digest=request.action_digest, decision_id=request.decision_id)
        review = await open_review(self._store, caller_scope(), opening)
        _mark_span(review)
        return reviews_pb2.OpenReviewResponse(review=review_message(review))

    async def ListReviews(
        self, request: reviews_pb2.ListReviewsRequest, context: Any
    ) -> reviews_pb2.ListReviewsResponse:
        """List reviews, newest first."""
        if request.state and request.state not in STATES:
            raise InvalidField.of("state", "is not a known state")
        page = page_of(request.page_size, request.page_token)
        reviews, next_token = await list_reviews(self._log, caller_scope(), STATES.get(request.state), page)
        return reviews_pb2.ListReviewsResponse(
            reviews=[review_message(review) for review in reviews], next_page_token=next_token
        )

    async def GetReview(self, request: reviews_pb2.GetReviewRequest, context: Any) -> reviews_pb2.GetReviewResponse:
        """Give one review."""
        review = await get_review(self._log, caller_scope(), request.id)
        return reviews_pb2.GetReviewResponse(review=review_message(review))

    async def ResolveReview(
        self, request: reviews_pb2.ResolveReviewRequest, context: Any
    ) -> reviews_pb2.ResolveReviewResponse:
        """Approve or deny."""
        if request.verdict not in VERDICTS:
            raise InvalidField.of("verdict", "must be VERDICT_APPROVE or VERDICT_DENY")
        ballot = Ballot(
            review_id=request.id,
            verdict=VERDICTS[request.verdict],
            comment=request.comment,
            request_id=request.request_id,
        )
        review = await resolve_review(self._store, caller_scope(), ballot)
        _mark_span(review)
        return reviews_pb2.ResolveReviewResponse(review=review_message(review))

    async def WatchReviews(
        self, request: reviews_pb2.WatchReviewsRequest, context: Any
    ) -> AsyncIterator[reviews_pb2.WatchReviewsResponse]:
        """Stream reviews as they open, are voted on and end."""
        async with aclosing(watch_reviews(self._log, self._clock, caller_scope(), request.position)) as reviews:
            async for review, position in reviews:
                message = review_message(review) if review else None
                yield reviews_pb2.WatchReviewsResponse(review=message, position=position)


def _mark_span(review: Review) -> None:
    span = trace.get_current_span()
    span.set_attribute(names.REVIEW_ID, review.id)
    span.set_attribute(names.CALL_ID, review.call_id)
    span.set_attribute(names.DECISION_ID, review.decision_id)
