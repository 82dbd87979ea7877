"""What the gateway does with a decision of policy: closed, so that doubt is deny."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.obligations import NONE, Obligations
from memoryos_toolgateway.domain.skill import EffectClass, Skill

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
    obligations: Obligations | None = NONE
    """None: one of them is not known in every part."""
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
    obligations: Obligations = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a decision must fit: the call, its skill, the review it waits for, and what this gateway can do."""

    call_id: str
    skill: Skill
    review_id: str = ""
    channels: frozenset[str] = frozenset()


def judge(decision: Decision, terms: Terms) -> Verdict:
    """Give what a decision means for a call.

    Deny unless the decision is for this call, has a known effect and
    obligations that are known and can be met, asks for a review with an
    approval obligation, or allows without one or on this call's own review.
    """
    message = decision.agent_message[:MESSAGE_CHARACTERS_MAX]
    if decision.effect is Effect.DENY or decision.call_id != terms.call_id or not decision.id:
        return denied(decision, agent_message=message if decision.effect is Effect.DENY else "")
    obligations = decision.obligations
    unmet = _unmet(obligations, terms)
    if obligations is None or unmet:
        return denied(decision, error_code=unmet)
    if decision.effect is Effect.ALLOW:
        rests_on_review = bool(decision.review_id)
        own_review = not rests_on_review or decision.review_id == terms.review_id
        if own_review and (rests_on_review or not obligations.approval):
            return Verdict(
                action=Action.SEND,
                decision_id=decision.id,
                review_id=decision.review_id,
                obligations=obligations,
            )
    if decision.effect is Effect.MANUAL_REVIEW and obligations.approval:
        return Verdict(
            action=Action.PARK,
            decision_id=decision.id,
            review_id=terms.review_id,
            agent_message=message or "This call waits for a person's approval.",
            obligations=obligations,
        )
    return denied(decision)


def denied(decision: Decision, *, error_code: str = messages.DENIED_CODE, agent_message: str = "") -> Verdict:
    """Give the verdict that a call is not made; who is to be told of its end is told."""
    told = Obligations(notices=decision.obligations.notices if decision.obligations else ())
    return Verdict(
        action=Action.DENY,
        decision_id=decision.id,
        error_code=error_code or messages.DENIED_CODE,
        agent_message=agent_message or DENIED_MESSAGE,
        obligations=told,
    )


def _unmet(obligations: Obligations | None, terms: Terms) -> str:
    """Give the code of the first obligation that this gateway cannot meet for this skill; empty when it can."""
    if obligations is None:
        return messages.OBLIGATION_UNKNOWN_CODE
    if obligations.sandbox:
        return messages.NO_SANDBOX_CODE
    if obligations.read_only and terms.skill.effect_class is not EffectClass.READ:
        return messages.READ_ONLY_CODE
    if any(notice.channel not in terms.channels for notice in obligations.notices):
        return messages.CHANNEL_UNKNOWN_CODE
    return ""
