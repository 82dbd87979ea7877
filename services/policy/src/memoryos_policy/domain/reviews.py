"""The review of one call: who may see it, who may resolve it, where a vote takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from memoryos_core import principals
from memoryos_core.scope import Scope

from memoryos_policy.errors import ReviewerGroup, ReviewerInvolved

REVIEWER = "reviewer"
AUDITOR = "auditor"


class ReviewState(StrEnum):
    """EXPIRED is a pending review past its time by the database clock; it is no stored state."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


class Verdict(StrEnum):
    """What one reviewer says."""

    APPROVE = "approve"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Vote:
    """One reviewer's word; a reviewer has one, the latest."""

    reviewer: str
    verdict: Verdict
    comment: str
    create_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One review, as of the moment it was read. `arguments` is canonical JSON, masked, or empty where not shown."""

    id: str
    call_id: str
    decision_id: str
    state: ReviewState
    group: str
    quorum: int
    user: str
    chain: tuple[str, ...]
    skill: str
    action_digest_hmac: str
    reasons: tuple[str, ...]
    create_time: datetime
    expire_time: datetime
    resolve_time: datetime | None
    version: int
    skill_version: str = ""
    effect_class: str = ""
    risk: str = ""
    resource_type: str = ""
    resource_id: str = ""
    votes: tuple[Vote, ...] = ()
    arguments: bytes = b""


def reviewer_groups(scope: Scope) -> list[str]:
    """Give the groups whose reviews the reader may resolve."""
    prefix = principals.group("")
    return [p.removeprefix(prefix) for p in scope.principals if REVIEWER in scope.roles and p.startswith(prefix)]


def in_group(review: Review, scope: Scope) -> bool:
    """Tell whether the reader is a reviewer of the group that this review asks for."""
    return REVIEWER in scope.roles and principals.group(review.group) in scope.principals


def is_involved(review: Review, scope: Scope) -> bool:
    """Tell whether the reader asked for the call, or is an agent: a review is a person's word."""
    involved = set(map(principals.person, (review.user, *review.chain)))
    return bool(scope.chain) or "agent" in scope.roles or principals.person(scope.user) in involved


def visible(review: Review, scope: Scope) -> bool:
    """Tell whether the reader may know of the review at all; an agent knows of those of its chain."""
    own = review.user == scope.user and review.chain[: len(scope.chain)] == scope.chain
    return own or in_group(review, scope) or AUDITOR in scope.roles


def shows_arguments(review: Review, scope: Scope) -> bool:
    """Tell whether the reader may see the arguments: whoever may resolve it, nobody else."""
    return in_group(review, scope) and not is_involved(review, scope)


def seen_by(review: Review, scope: Scope) -> Review:
    """Give what the reader may see: the requester learns where it stands, not why nor who said what (I11)."""
    if shows_arguments(review, scope):
        return review
    if AUDITOR in scope.roles:
        return replace(review, arguments=b"", resource_id="")
    return replace(review, arguments=b"", resource_id="", reasons=(), risk="", votes=())


def check_may_resolve(review: Review, scope: Scope) -> None:
    """Raise ReviewerInvolved or ReviewerGroup when this person may not resolve the review."""
    if is_involved(review, scope):
        raise ReviewerInvolved
    if not in_group(review, scope):
        raise ReviewerGroup


def verdicts_of(votes: Iterable[tuple[str, Verdict]]) -> Sequence[Verdict]:
    """Give one verdict for each person among these reviewers, however their names are written: a denial, if any."""
    denials_last = sorted(votes, key=lambda vote: vote[1] is Verdict.DENY)
    return list({principals.person(reviewer): verdict for reviewer, verdict in denials_last}.values())


def state_after(quorum: int, verdicts: Sequence[Verdict]) -> ReviewState:
    """Give the state that these votes make: one denial ends it, `quorum` approvals do."""
    if Verdict.DENY in verdicts:
        return ReviewState.DENIED
    return ReviewState.APPROVED if len(verdicts) >= quorum else ReviewState.PENDING
