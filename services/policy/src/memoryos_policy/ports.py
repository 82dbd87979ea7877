"""What the operations of policy need from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from memoryos_policy.domain.verdicts import Verdict


class PolicyDecisionPoint(Protocol):
    """Answers questions by rules. OPA, or another one that speaks of subject, action, resource and context."""

    async def decide(self, document: Mapping[str, Any]) -> Verdict:
        """Give the verdict on an input document (domain/questions.py).

        Never raises but for cancellation: whatever fails is a DENY without a
        revision whose one reason is policy_not_ready (never reached yet),
        policy_missing (no rules) or policy_error:<kind>.
        """

    async def is_ready(self) -> bool:
        """Tell whether questions are answered by a bundle right now."""
