"""A call of the effect journal and the ways it may go.

    (nothing) → INTENDED | PARKED | DENIED
    INTENDED  → PARKED | DISPATCHED | DENIED | CANCELLED
    PARKED    → DISPATCHED (uses the approval up) | DENIED | CANCELLED
    DISPATCHED → SUCCEEDED | FAILED | UNKNOWN
    UNKNOWN   → SUCCEEDED | FAILED (by a late answer) | DISPATCHED (only where repeating does no harm)

Every step is one compare-and-set on (state, dispatches), so of two callers or
replicas one goes on and the other finds the row as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from memoryos_core.canonical import action_digest

from memoryos_toolgateway.domain.skill import EffectClass, Skill

DISPATCHES_MAX: Final = 3
"""How often a call whose outcome is unknown is sent again when it is asked for again, if its class permits."""


class CallState(StrEnum):
    """Where a call stands."""

    INTENDED = "INTENDED"
    PARKED = "PARKED"
    DISPATCHED = "DISPATCHED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
    DENIED = "DENIED"
    CANCELLED = "CANCELLED"


MOVES: Final[Mapping[CallState, frozenset[CallState]]] = {
    CallState.INTENDED: frozenset(
        {CallState.PARKED, CallState.DISPATCHED, CallState.DENIED, CallState.CANCELLED},
    ),
    CallState.PARKED: frozenset({CallState.DISPATCHED, CallState.DENIED, CallState.CANCELLED}),
    CallState.DISPATCHED: frozenset({CallState.SUCCEEDED, CallState.FAILED, CallState.UNKNOWN}),
    CallState.UNKNOWN: frozenset({CallState.SUCCEEDED, CallState.FAILED, CallState.DISPATCHED}),
    CallState.SUCCEEDED: frozenset(),
    CallState.FAILED: frozenset(),
    CallState.DENIED: frozenset(),
    CallState.CANCELLED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """What is journaled when a call is first decided."""

    id: str
    issuer: str
    request_id: str
    skill: Skill
    arguments: bytes
    """Validated, canonical JSON."""
    action_digest: str
    state: CallState
    decision_id: str
    error_code: str = ""
    agent_message: str = ""
    lease_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One row of the journal. `arguments` and `result` are empty when it was read without contents."""

    tenant: str
    id: str
    issuer: str
    request_id: str
    user: str
    chain: tuple[str, ...]
    skill: str
    version: str
    definition_digest: str
    effect_class: EffectClass
    state: CallState
    dispatches: int
    approval_used: bool
    action_digest_hmac: str
    arguments: bytes
    result: bytes
    error_code: str
    agent_message: str
    decision_id: str
    review_id: str
    lease_epoch: int
    traceparent: str
    create_time: datetime
    dispatch_time: datetime | None
    end_time: datetime | None

    def digest_for(self, *, user: str, chain: tuple[str, ...], skill: str, arguments: bytes) -> str:
        """Give the action digest of these arguments under the definition that this call was decided on."""
        return action_digest(
            tenant=self.tenant,
            user=user,
            chain=chain,
            skill=skill,
            version=self.version,
            definition_digest=self.definition_digest,
            arguments=arguments,
        )

    @property
    def action_digest(self) -> str:
        """The digest of the action that is kept: what was decided, reviewed, and runs."""
        return self.digest_for(user=self.user, chain=self.chain, skill=self.skill, arguments=self.arguments)

    @property
    def can_go_on(self) -> bool:
        """Whether asking for it again may bring it on."""
        waits = self.state in (CallState.INTENDED, CallState.PARKED)
        return waits or (self.state is CallState.UNKNOWN and self.may_be_sent_again)

    @property
    def may_be_sent_again(self) -> bool:
        """Whether an unknown outcome may be resolved by doing it again; an approval covers one dispatch only."""
        return self.effect_class.may_repeat and not self.approval_used and self.dispatches < DISPATCHES_MAX

    def without_contents(self) -> Call:
        """Give the same call as an auditor sees it."""
        return replace(self, arguments=b"", result=b"")


class OutcomeKind(StrEnum):
    """What is known after an attempt."""

    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    """The upstream answered that it did not do it."""
    NOT_SENT = "not_sent"
    """The transport proves that nothing reached the upstream."""
    UNKNOWN = "unknown"
    """It may or may not have happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one attempt. `error_code` and `agent_message` hold nothing that an upstream said."""

    kind: OutcomeKind
    result: bytes = b""
    error_code: str = ""
    agent_message: str = ""

    @property
    def state(self) -> CallState:
        """The state that the journal gets."""
        if self.kind is OutcomeKind.SUCCEEDED:
            return CallState.SUCCEEDED
        return CallState.UNKNOWN if self.kind is OutcomeKind.UNKNOWN else CallState.FAILED
