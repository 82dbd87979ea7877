"""What answers instead of an upstream that has failed a skill of a tenant several times in a row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Outcome, OutcomeKind
from memoryos_toolgateway.domain.skill import FallbackKind, Skill

FAILURES_MIN: Final = 3
_UPSTREAM_FAILED: Final = frozenset(
    {
        messages.NOT_SENT_CODE,
        messages.READ_FAILED_CODE,
        messages.UPSTREAM_OPEN_CODE,
        messages.UPSTREAM_BUSY_CODE,
    }
)
"""Failures that are the upstream's own and are equal; what it refuses for its arguments is none."""


@dataclass(slots=True, kw_only=True)
class Fallbacks:
    """Counts failures in this process; a success ends the row. Every call is tried before its fallback answers."""

    failures: dict[tuple[str, str], int] = field(default_factory=dict)

    def apply(self, tenant: str, skill: Skill, outcome: Outcome) -> Outcome:
        """Give the outcome, or the skill's fallback after so many equal failures; never for a doubtful effect."""
        if skill.fallback is None or outcome.kind is OutcomeKind.UNKNOWN:
            return outcome
        key = (tenant, skill.name)
        if outcome.error_code not in _UPSTREAM_FAILED:
            self.failures.pop(key, None)
            return outcome
        self.failures[key] = self.failures.get(key, 0) + 1
        if self.failures[key] < FAILURES_MIN:
            return outcome
        if skill.fallback.kind is FallbackKind.RESULT:
            return replace(outcome, result=skill.fallback.result, fallback=True)
        return replace(outcome, agent_message=skill.fallback.text, fallback=True)
