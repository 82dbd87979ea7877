"""Read reviews: those that the reader may resolve, has asked for, or audits."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_core.scope import Scope

from memoryos_policy.domain.reviews import Review, ReviewState, seen_by, visible
from memoryos_policy.errors import ReviewNotFound
from memoryos_policy.ports import Page, ReviewLog


async def get_review(log: ReviewLog, scope: Scope, review_id: str) -> Review:
    """Give one review as the reader may see it; one of others is ReviewNotFound."""
    review = await log.find(scope, review_id)
    if not visible(review, scope):
        raise ReviewNotFound
    return seen_by(review, scope)


async def list_reviews(
    log: ReviewLog, scope: Scope, state: ReviewState | None, page: Page
) -> tuple[Sequence[Review], str]:
    """Give a page of reviews, newest first, without arguments, and the token of the next page."""
    reviews, next_token = await log.newest(scope, state, page)
    return [seen_by(review, scope) for review in reviews if visible(review, scope)], next_token
