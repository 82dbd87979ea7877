"""What the operations of policy need from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from memoryos_core.feed import FeedPage
from memoryos_core.scope import Scope

from memoryos_policy.domain.decisions import Decision, Draft, Fired, Kept
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
    """Which decisions; what is empty or None asks for nothing. Times are half-open.

    `own`: only the reader's own, which are those of its chain.
    """

    own: bool = False
    user: str = ""
    skill: str = ""
    call_id: str = ""
    trace_id: str = ""
    review_id: str = ""
    effect: Effect | None = None
    reason_code: str = ""
    policy: str = ""
    from_time: datetime | None = None
    until_time: datetime | None = None


class FeedPosition(NamedTuple):
    """Where a reader of decisions stands: behind a decision of a transaction, by the order of transactions."""

    xid: int
    decision_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPosition:
    """Where a reader of changing reviews stands.

    `listing`: it is still being told what was pending when it began, up to
    `review_id`, and changes since transaction `xid` come after. Else it has
    been told what changed up to review_id of xid, and of what ended by itself
    up to expired_id at time `until`.
    """

    xid: int
    until: datetime
    listing: bool = False
    review_id: str = ""
    expired_id: str = ""


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


class DecisionLog(Protocol):
    """Reads what was kept. Every method sees the scope's tenant only."""

    async def find(self, scope: Scope, decision_id: str, *, with_input: bool = False) -> Decision:
        """Give one decision, or raise DecisionNotFound. Its masked input is audited as a read of content."""

    async def newest(
        self, scope: Scope, wanted: DecisionFilter, page: Page, *, with_input: bool = False
    ) -> tuple[Sequence[Decision], str]:
        """Give decisions, newest first, and the token of the next page, empty at the end.

        A page may be short, or empty, before the end. Masked inputs are audited.
        """

    async def kept(self, scope: Scope, decision_id: str) -> Kept:
        """Give a decision with all that it was made from, or raise DecisionNotFound; audited as a read of content."""

    async def page_secret(self, scope: Scope) -> bytes:
        """Give what positions of the scope's tenant are signed with."""

    async def now(self, scope: Scope) -> FeedPosition:
        """Give the position behind everything that is kept."""

    async def after(
        self, scope: Scope, effect: Effect | None, position: FeedPosition, limit: int
    ) -> FeedPage[tuple[FeedPosition, Decision], FeedPosition]:
        """Give the tenant's decisions behind a position, in the order of their transactions.

        Nothing can be kept before a position later on: what transactions that
        still run may keep is waited for.
        """


class KeptRules(Protocol):
    """The rules of every revision that was decided by."""

    async def again(self, revision: str, document: Mapping[str, Any]) -> tuple[Verdict, Sequence[Fired]]:
        """Ask the rules of a revision about a document once more, and give the rules that were true on the way.

        Raises BundleNotKept, ExplainNotConfigured where there is no engine to
        ask, and ExplainFailed when it gave no usable answer.
        """


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

    async def vote(self, scope: Scope, ballot: Ballot, check: Callable[[Review, Scope], None]) -> Review:
        """Count a vote and give the review as it stands then.

        The review is locked while `check` looks at it and may raise. Raises
        ReviewNotFound, and ReviewClosed when it is not pending or past its time
        by the database clock. A second request with the same id counts nothing.
        """


class ReviewLog(Protocol):
    """Reads reviews. Every method sees the scope's tenant only."""

    async def find(self, scope: Scope, review_id: str) -> Review:
        """Give one review with votes and masked arguments, or raise ReviewNotFound."""

    async def newest(self, scope: Scope, state: ReviewState | None, page: Page) -> tuple[Sequence[Review], str]:
        """Give the reviews that the scope may know of, newest first, and the token of the next page.

        They come without arguments and votes.
        """

    async def page_secret(self, scope: Scope) -> bytes:
        """Give what positions of the scope's tenant are signed with."""

    async def now(self, scope: Scope) -> ReviewPosition:
        """Give the position before what is pending now."""

    async def after(
        self, scope: Scope, position: ReviewPosition, limit: int
    ) -> FeedPage[tuple[ReviewPosition, Review], ReviewPosition]:
        """Give reviews that the scope may know of and that opened, were voted on or ended since, as they stand.

        They come without arguments and votes. Ended by themselves is what is
        past its time by the database clock.
        """
