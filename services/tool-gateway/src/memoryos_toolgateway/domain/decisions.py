"""What the gateway does with a decision of policy: closed, so that doubt is deny."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memoryos_toolgateway.domain.skill import Skill

DENIED_MESSAGE: Final = "This call is not allowed."
MESSAGE_CHARACTERS_MAX: Final = 500
"""Longer sentences of policy are cut: they are kept in plain and shown to models."""


class Effect(StrEnum):
    """What a decision says. UNKNOWN is anything that this gateway does not know."""

    ALLOW = "allow"
    DENY = "deny"
    MANUAL_REVIEW = "manual_review"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What the action is done to. `properties` is canonical JSON, or empty when nothing is known."""

    type: str = ""
    id: str = ""
    properties: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One action to decide."""

    call_id: str
    attempt: int
    skill: Skill
    resource: Resource
    arguments: bytes
    action_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer of policy."""

    id: str
    call_id: str
    effect: Effect
    agent_message: str = ""
    review_id: str = ""
    approval_asked: bool = False
    """It carries the obligation that a person approves."""
    obligations_known: bool = True
    """It carries no obligation but approval."""
    by_rule: bool = True
    """A bundle gave it; without one it is a deny that stands for a fault of the engine."""


class Action(StrEnum):
    """What happens next."""

    SEND = "send"
    PARK = "park"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happens next, and on which decision it rests."""

    action: Action
    decision_id: str
    review_id: str = ""
    error_code: str = ""
    agent_message: str = ""


def judge(decision: Decision, *, call_id: str, review_id: str = "") -> Verdict:
    """Give what a decision means for the call `call_id` that waits for `review_id`, if any.

    Deny unless the decision is for this call, has a known effect and known
    obligations only, asks for a review with an approval obligation, or allows
    without one or on this call's own review.
    """
    message = decision.agent_message[:MESSAGE_CHARACTERS_MAX]
    fits = decision.obligations_known and decision.call_id == call_id and bool(decision.id)
    if fits and decision.effect is Effect.ALLOW:
        rests_on_review = bool(decision.review_id)
        own_review = not rests_on_review or decision.review_id == review_id
        if own_review and (rests_on_review or not decision.approval_asked):
            return Verdict(action=Action.SEND, decision_id=decision.id, review_id=decision.review_id)
    if fits and decision.effect is Effect.MANUAL_REVIEW and decision.approval_asked:
        return Verdict(
            action=Action.PARK,
            decision_id=decision.id,
            review_id=review_id,
            agent_message=message or "This call waits for a person's approval.",
        )
    return Verdict(
        action=Action.DENY,
        decision_id=decision.id,
        error_code="denied",
        agent_message=(message if decision.effect is Effect.DENY else "") or DENIED_MESSAGE,
    )
