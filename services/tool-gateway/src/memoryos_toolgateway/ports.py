"""What the operations need of the outside world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import Call, NewCall, Outcome
from memoryos_toolgateway.domain.decisions import Decision, Question, Resource, Verdict
from memoryos_toolgateway.domain.skill import Skill


class Journal(Protocol):
    """The effect journal. Every change is one transaction together with its audit row.

    All methods raise DependencyUnavailable when the database does not answer;
    then nothing was changed, or the change is found by the next `find`.
    """

    async def find(self, scope: Scope, issuer: str, request_id: str, lease_epoch: int) -> Call | None:
        """Give the call of this request with its contents, or None.

        A DISPATCHED call past its deadline comes back as UNKNOWN. Raises
        EpochFenced when `lease_epoch` (if not 0) is smaller than one seen for
        this call or the task of `scope`.
        """

    async def open(self, scope: Scope, new: NewCall) -> tuple[Call, bool]:
        """Journal a new call and give it and True; when the request has one already, give that and False."""

    async def get(self, scope: Scope, call_id: str, *, with_contents: bool) -> Call | None:
        """Give a call of the scope's tenant, overdue ones as UNKNOWN, or None."""

    async def park(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED → PARKED, or a PARKED call's latest decision and review; None when it has moved on."""

    async def dispatch(self, scope: Scope, call: Call, verdict: Verdict, allowance_s: float) -> Call | None:
        """Move `call` from its state to DISPATCHED until the database clock is `allowance_s` on.

        The one compare-and-set that uses an approval up: None when the call is
        not in the state, dispatch count or action it was read in.
        """

    async def deny(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED or PARKED → DENIED; None when it has moved on, or has a review that `call` does not know of."""

    async def finish(self, scope: Scope, call: Call, outcome: Outcome) -> Call | None:
        """Journal how this dispatch ended; also resolves the UNKNOWN that a sweeper made of it.

        None when it was sent again or ended otherwise meanwhile.
        """

    async def expire(self, limit: int) -> int:
        """Make UNKNOWN of DISPATCHED calls past their deadline, in all tenants; give how many."""

    async def page_key(self, scope: Scope) -> bytes:
        """Give the key for page tokens of the scope's tenant."""


class PolicyClient(Protocol):
    """Policy as the caller of the current RPC sees it. Raises PolicyUnavailable when it does not answer."""

    async def decide(self, question: Question) -> Decision:
        """Give the decision on one action, which policy keeps; ArgumentsInvalid when it can judge no such action."""

    async def visible(self, skills: Sequence[Skill]) -> list[bool]:
        """Tell for each skill whether the caller could be allowed, or sent to review, at all."""

    async def open_review(self, call_id: str, action_digest: str, decision_id: str) -> str:
        """Open the review of a parked call and give its id; the same call gives the same review."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at an effect."""

    skill: Skill
    call_id: str
    arguments: dict[str, Any]


class Connector(Protocol):
    """Carries out calls of one kind of skill."""

    def check(self, skill: Skill, arguments: dict[str, Any]) -> None:
        """Raise ArgumentsInvalid when the connector cannot express these arguments."""

    async def attempt(self, attempt: Attempt) -> Outcome:
        """Try once, within the skill's time-out, and say what is known then. Raises nothing but CancelledError."""


class ResourceLookup(Protocol):
    """Finds out what a call is done to."""

    async def look_up(self, skill: Skill, arguments: dict[str, Any]) -> Resource:
        """Give type, id and, when the lookup succeeded, properties. Raises ArgumentsInvalid for an unusable id."""
