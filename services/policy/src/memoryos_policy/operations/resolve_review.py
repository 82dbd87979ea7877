"""Approve or deny a review."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_policy.domain.reviews import Review, check_may_resolve, seen_by
from memoryos_policy.ports import Ballot, ReviewStore


async def resolve_review(store: ReviewStore, scope: Scope, ballot: Ballot) -> Review:
    """Count one person's vote and give the review as it stands.

    Raises ReviewNotFound, ReviewerInvolved, ReviewerGroup, or ReviewClosed when
    it ended or its time is over by the database clock.
    """
    return seen_by(await store.vote(scope, ballot, check_may_resolve), scope)
