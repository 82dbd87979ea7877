"""Open the review of a parked call."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_policy.domain.reviews import Review, seen_by
from memoryos_policy.ports import Opening, ReviewStore


async def open_review(store: ReviewStore, scope: Scope, opening: Opening) -> Review:
    """Give the one review of this call and action, opened if it was not; see ReviewStore.open for refusals."""
    return seen_by(await store.open(scope, opening), scope)
