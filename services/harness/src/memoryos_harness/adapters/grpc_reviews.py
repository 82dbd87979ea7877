"""Reviews over the policy service."""

from __future__ import annotations

from datetime import UTC
from typing import Final

import grpc
from memoryos.policy.v1 import reviews_pb2, reviews_pb2_grpc
from memoryos_core.clock import Clock
from memoryos_grpc.caller import subject_token

TIMEOUT_S: Final = 5.0


class GrpcReviews:
    """See `Reviews`."""

    def __init__(self, channel: grpc.aio.Channel, clock: Clock) -> None:
        self._stub = reviews_pb2_grpc.ReviewsStub(channel)
        self._clock = clock

    async def is_pending(self, token: str, review_id: str) -> bool:
        """See `Reviews.is_pending`."""
        try:
            with subject_token(token):
                call = self._stub.GetReview(reviews_pb2.GetReviewRequest(id=review_id), timeout=TIMEOUT_S)
            review = (await call).review
        except grpc.aio.AioRpcError:
            return False
        open_until = review.expire_time.ToDatetime(tzinfo=UTC)
        return bool(review.state == reviews_pb2.REVIEW_STATE_PENDING and self._clock.now() < open_until)
