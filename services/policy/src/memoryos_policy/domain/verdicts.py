"""What a policy decision point says about one question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from memoryos_policy.domain.obligations import Approval, Obligation, approval_in

RISKS: Final = ("low", "medium", "high", "critical")
"""Risk classes, the least first."""
AGENT_MESSAGE_DENIED: Final = "This action is not permitted."
AGENT_MESSAGE_UNDECIDED: Final = "This action could not be checked just now and was not carried out."
POLICY_NOT_READY: Final = "policy_not_ready"
POLICY_MISSING: Final = "policy_missing"
POLICY_STALE: Final = "policy_stale"
_ENGINE_AWAY: Final = frozenset({POLICY_NOT_READY, POLICY_MISSING, "policy_error:timeout", "policy_error:unreachable"})


class Effect(StrEnum):
    """deny wins over manual_review, which wins over allow."""

    ALLOW = "allow"
    DENY = "deny"
    MANUAL_REVIEW = "manual_review"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, for auditors: a stable code, the rule that gave it, a sentence."""

    code: str
    policy: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One decision, before it is kept.

    One approval is among the obligations exactly when the effect is
    MANUAL_REVIEW, and a DENY has none at all. `revision` and `risk` are empty
    only in a deny that no rule gave. `confirm_time`: when the bundle's source
    last confirmed it, if known.
    """

    effect: Effect
    reasons: tuple[Reason, ...]
    agent_message: str
    obligations: tuple[Obligation, ...] = ()
    risk: str = ""
    revision: str = ""
    confirm_time: datetime | None = None

    @property
    def approval(self) -> Approval | None:
        """The approval that it asks for."""
        return approval_in(self.obligations)

    @property
    def undecided(self) -> bool:
        """Whether no rules have spoken: it is a deny because of a fault of ours."""
        return not self.revision

    @property
    def engine_away(self) -> bool:
        """Whether that fault is the engine's absence, and no rule's."""
        return self.undecided and any(reason.code in _ENGINE_AWAY for reason in self.reasons)


def refusal(code: str, text: str, *, agent_message: str = AGENT_MESSAGE_UNDECIDED) -> Verdict:
    """Give the deny that stands for a failure of ours, with its own reason code."""
    return Verdict(
        effect=Effect.DENY,
        reasons=(Reason(code, "memoryos.policy", text),),
        agent_message=agent_message,
    )


def policy_error(kind: str) -> Verdict:
    """Give the deny for an answer of OPA that is absent or not of the agreed form."""
    return refusal(f"policy_error:{kind}", "The policy engine gave no usable answer.")
