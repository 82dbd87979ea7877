"""What the operations of policy need from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memoryos_core.scope import Scope

from memoryos_policy.domain.decisions import Decision, Draft
from memoryos_policy.domain.questions import Circumstances, Question
from memoryos_policy.domain.reviews import Review, ReviewState
from memoryos_policy.domain.reviews import Verdict as ReviewVerdict
from memoryos_policy.domain.verdicts import Effect, Verdict


class PolicyDecisionPoint(Protocol):
    """Answers questions by rules. OPA, or another one that speaks of subject, action, resource and context."""

    async def decide(self, document: Mapping[str, Any]) -> Verdict:
        """Give the verdict on an input document (domain/questions.py).

        Never raises but for cancellation: whatever fails is a DENY without a
        revision whose one reason is policy_not_ready (never reached yet),
        policy_missing (no rules), policy_stale (rules too long unconfirmed) or
        policy_error:<kind>.
        """

    async def probe(self) -> Verdict:
        """Give the verdict on no question in particular: `undecided` where calls would be denied for a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list is wanted. `token` is empty for the first page; `size` is at least 1."""

    size: int
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Which decisions; an empty call_id and no effect are all. `user` None: of all, else of the reader's chain."""

    user: str | None
    call_id: str
    effect: Effect | None


class DecisionStore(Protocol):
    """Keeps decisions. Every method sees the scope's tenant only."""

    async def circumstances_of(self, scope: Scope, calls: Sequence[Question]) -> Sequence[Circumstances]:
        """Give what is known of each call beyond its request, in order: its review, by the database clock, if it has
        one, and what the session of the scope has seen and its user has said."""

    async def keep(self, scope: Scope, drafts: Sequence[Draft]) -> Sequence[Decision]:
        """Keep decisions and their one audit row together, and give them back.

        When this returns they are kept; when it raises none is, and nobody may
        act on them. Decisions of several callers may share one commit; those of
        one caller that cannot be kept take no others with them.
        """

    async def note_listing(self, scope: Scope, service: str, drafts: Sequence[Draft]) -> Sequence[Decision]:
        """Write the one audit row of a listing, which keeps no decisions, and give them back without names."""

    async def find(self, scope: Scope, decision_id: str) -> Decision:
        """Give one decision, or raise DecisionNotFound."""

    async def newest(self, scope: Scope, wanted: DecisionFilter, page: Page) -> tuple[Sequence[Decision], str]:
        """Give decisions, newest first, and the token of the next page, empty at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The wish to open the review of a parked call."""

    call_id: str
    action_digest: str
    decision_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One reviewer's vote, as requested."""

    review_id: str
    verdict: ReviewVerdict
    comment: str
    request_id: str


class ReviewStore(Protocol):
    """Keeps reviews and votes. Every method sees the scope's tenant only."""

    async def open(self, scope: Scope, opening: Opening) -> Review:
        """Open the review of a call, or give the one that is open for this call and digest.

        Raises ReviewDigestMismatch when it was opened for another action, and
        DecisionNotFound, ReviewNotAsked or ReviewDigestMismatch when the
        decision named is not the scope's own manual_review of this action.
        """

    async def find(self, scope: Scope, review_id: str) -> Review:
        """Give one review with votes and arguments, or raise ReviewNotFound."""

    async def newest(self, scope: Scope, state: ReviewState | None, page: Page) -> tuple[Sequence[Review], str]:
        """Give the reviews that the scope may know of, newest first, and the token of the next page.

        They come without arguments and votes.
        """

    async def vote(self, scope: Scope, ballot: Ballot, check: Callable[[Review, Scope], None]) -> Review:
        """Count a vote and give the review as it stands then.

        The review is locked while `check` looks at it and may raise. Raises
        ReviewNotFound, and ReviewClosed when it is not pending or past its time
        by the database clock. A second request with the same id counts nothing.
        """
