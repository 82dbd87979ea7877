"""What the operations need of the outside world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memoryos_core.paging import Position
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import Call, CallState, NewCall, Outcome
from memoryos_toolgateway.domain.decisions import Decision, Question, Resource, Verdict
from memoryos_toolgateway.domain.obligations import RateLimit
from memoryos_toolgateway.domain.skill import Skill


class RateExceeded(Exception):
    """A rate or budget lets the call not through now; nothing was taken of any."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """On what a call is sent: its verdict, for how long, and what it takes of rates."""

    verdict: Verdict
    allowance_s: float
    timeout_s: float
    """How long the upstream may work on after the deadline."""
    rates: tuple[RateLimit, ...] = ()


class Journal(Protocol):
    """The effect journal. Every change is one transaction together with its audit row.

    All methods raise DependencyUnavailable when the database does not answer;
    then nothing was changed, or the change is found by the next `find`.
    """

    async def find(self, scope: Scope, issuer: str, request_id: str, lease_epoch: int) -> Call | None:
        """Give the call of this request with its contents, or None.

        A DISPATCHED call past its deadline comes back as UNKNOWN. What its result
        brings into a session is noted for that of `scope` (so does every method
        that gives a result). Raises
        EpochFenced when `lease_epoch` (if not 0) is smaller than one seen for
        this call or the task of `scope`.
        """

    async def open(self, scope: Scope, new: NewCall) -> tuple[Call, bool]:
        """Journal a new call and give it and True; when the request has one already, give that and False."""

    async def get(self, scope: Scope, call_id: str, *, with_contents: bool) -> Call | None:
        """Give a call of the scope's tenant, overdue ones as UNKNOWN, or None."""

    async def park(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED → PARKED, or a PARKED call's latest decision and review; None when it has moved on."""

    async def dispatch(self, scope: Scope, call: Call | NewCall, terms: Dispatch) -> Call | None:
        """Move `call` from its state to DISPATCHED until the database clock is `allowance_s` on.

        One that is not journaled yet is with the same commit, unless its request has a call by now.
        The one compare-and-set that uses an approval up and takes the rates: None
        when the call is not in the state, dispatch count or action it was read in.
        Raises RateExceeded, and then nothing is changed.
        """

    async def may_send(self, call: Call, needs_s: float) -> bool:
        """Tell whether this dispatch still holds the call, with so much time to its deadline by the database clock."""

    async def end_unsent(self, scope: Scope, call: Call, outcome: Outcome, verdict: Verdict) -> Call | None:
        """INTENDED → FAILED (SUCCEEDED with a fallback's result): nothing was sent. None when it has moved on."""

    async def deny(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """INTENDED or PARKED → DENIED; None when it has moved on, or has a review that `call` does not know of."""

    async def finish(
        self, scope: Scope, call: Call, outcome: Outcome, given_back: tuple[RateLimit, ...] = ()
    ) -> Call | None:
        """Journal how this dispatch ended; also resolves the UNKNOWN that a sweeper made of it.

        `given_back` is what the dispatch took of rates, where nothing was sent.

        None when it was sent again or ended otherwise meanwhile.
        """

    async def expire(self, limit: int) -> int:
        """Make UNKNOWN of DISPATCHED calls past their deadline, in all tenants; give how many."""

    async def full_result(self, scope: Scope, call: Call) -> bytes:
        """Give the whole result of a call whose result was cut; empty where it is not kept (any more)."""

    async def page_key(self, scope: Scope) -> bytes:
        """Give the key for page tokens of the scope's tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls are listed. Empty values let all through."""

    state: CallState | None = None
    skill: str = ""
    session_id: str = ""
    task_id: str = ""


class CallBook(Protocol):
    """What people see and do with calls beside making them. Every change is one transaction with its audit row."""

    async def list_calls(self, scope: Scope, wanted: CallFilter, after: Position | None, limit: int) -> list[Call]:
        """Give calls without contents, newest first: the scope's own, all of the tenant for auditors and operators."""

    async def cancel(self, scope: Scope, call: Call) -> Call | None:
        """INTENDED or PARKED → CANCELLED; None when it has moved on."""

    async def refuse(self, scope: Scope, issuer: str, request_id: str, call_id: str) -> bool:
        """Journal a call that has not come as CANCELLED; False when it has come."""

    async def settle(self, scope: Scope, call: Call, finding: Finding) -> Call | None:
        """UNKNOWN → SUCCEEDED or FAILED; None when it has moved on, or could still happen by the database clock."""

    async def doubts(self, limit: int) -> list[Call]:
        """Give calls of all tenants whose upstream is to be asked now, with contents, and put the asking off."""

    async def without_doubt(self, call: Call) -> None:
        """Ask no more about a call that only a person can end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out about a call of unknown outcome, and from whom."""

    happened: bool
    by_user: str = ""
    """Empty: from its upstream."""
    comment: str = ""


class Outbox(Protocol):
    """Notices of calls that have ended, until they have arrived."""

    async def due(self, limit: int) -> list[Told]:
        """Give notices that are due, in all tenants, and put each off: one that is not `done` comes again."""

    async def later(self, told: Told, pause_s: float) -> None:
        """Let a notice that has not arrived come again after a pause."""

    async def done(self, told: Told) -> None:
        """Forget a notice: it has arrived, or never will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One notice to send. It may come more than once; `id` is then the same."""

    tenant: str
    id: str
    channel: str
    text: str
    call_id: str
    skill: str
    state: str
    tries: int


class Reconciler(Protocol):
    """Asks upstreams what became of calls."""

    async def ask(self, skill: Skill, call: Call) -> bool | None:
        """Tell whether the call took effect; None when the upstream does not say. Raises nothing but CancelledError."""


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


class Notifier(Protocol):
    """Tells people something by a channel of the configuration."""

    def knows(self, channel: str) -> bool:
        """Tell whether there is such a channel."""

    async def notify(self, channel: str, text: str) -> bool:
        """Send `text` once; tells whether it was taken. Raises nothing but CancelledError."""
