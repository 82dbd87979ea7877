"""A kept decision, and who sees what of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from memoryos_core.canonical import JsonValue
from memoryos_core.scope import Scope

from memoryos_policy.domain.obligations import Approval, Obligation, approval_in
from memoryos_policy.domain.questions import Question
from memoryos_policy.domain.reviews import AUDITOR
from memoryos_policy.domain.verdicts import Effect, Reason, Verdict

SEES_ALL: frozenset[str] = frozenset({"auditor", "tenant-admin"})
"""Roles that see every decision of their tenant, with reasons."""


def sees_inputs(scope: Scope) -> bool:
    """Tell whether the reader is a person who audits: no agent is shown what others asked for."""
    return AUDITOR in scope.roles and not scope.chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A decision about to be kept. `document` is the input that OPA saw; it is sealed."""

    question: Question
    verdict: Verdict
    document: Mapping[str, Any]
    review_id: str
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision. `id`, `call_id` and `create_time` are empty for a listing, which keeps no row."""

    id: str
    effect: Effect
    reasons: tuple[Reason, ...]
    agent_message: str
    obligations: tuple[Obligation, ...]
    risk: str
    bundle_revision: str
    bundle_confirm_time: datetime | None
    create_time: datetime
    call_id: str
    skill: str
    action_digest_hmac: str
    user: str
    chain: tuple[str, ...]
    session_id: str
    task_id: str
    trace_id: str
    review_id: str
    input: bytes = b""
    """The masked input, canonical JSON; only where it was asked for, and empty once its user is erased."""

    @property
    def approval(self) -> Approval | None:
        """The approval that it asks for."""
        return approval_in(self.obligations)

    @property
    def bundle_age(self) -> timedelta | None:
        """How long before the decision the bundle's source last confirmed it; clocks that differ give zero."""
        if self.bundle_confirm_time is None:
            return None
        return max(timedelta(), self.create_time - self.bundle_confirm_time)

    def belongs_to(self, scope: Scope) -> bool:
        """Tell whether the reader is its user, the agent that asked, or one above that in its chain."""
        return self.user == scope.user and self.chain[: len(scope.chain)] == scope.chain

    def seen_by(self, scope: Scope) -> Decision:
        """Give what a reader may see: reasons are for auditors only."""
        return self if scope.roles & SEES_ALL else replace(self, reasons=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A decision with what it was made from. `document` is the input as the rules saw it, None once it was erased;
    `rewrites` are the values of its rewrites, which the decision itself withholds."""

    decision: Decision
    document: Mapping[str, Any] | None
    rewrites: Sequence[JsonValue]


@dataclass(frozen=True, slots=True, order=True)
class Fired:
    """A rule that was true: its file within the bundle, the line of its head from 1, and the head as written."""

    file: str
    line: int
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision as it was kept and as its rules make it again, and whether both say the same."""

    kept: Decision
    again: Decision
    same: bool
    fired: Sequence[Fired]
