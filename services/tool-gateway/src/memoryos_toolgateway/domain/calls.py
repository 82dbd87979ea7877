"""A call of the effect journal and the ways it may go.

    (nothing) → DISPATCHED (sent with the first decision) | INTENDED (not let through now) | PARKED | DENIED
        | CANCELLED (withdrawn before it came)
    INTENDED  → PARKED | DISPATCHED | DENIED | CANCELLED | FAILED (a rate or its upstream lets nothing through)
    PARKED    → DISPATCHED (uses the approval up) | DENIED | CANCELLED
    DISPATCHED → SUCCEEDED | FAILED | UNKNOWN
    UNKNOWN   → SUCCEEDED | FAILED (by a late answer, its upstream or a person) | DISPATCHED (only where
                repeating does no harm)

Every step is one compare-and-set on (state, dispatches), so of two callers or
replicas one goes on and the other finds the row as it stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from memoryos_core.canonical import action_digest
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.obligations import Notice
from memoryos_toolgateway.domain.skill import EffectClass, Skill

DISPATCHES_MAX: Final = 3
"""How often a call whose outcome is unknown is sent again when it is asked for again, if its class permits."""


SEES_ALL: Final = frozenset({"auditor", "operator"})
"""Roles to which every call of their tenant is told, without contents."""
SETTLES_ALL: Final = SEES_ALL | {"tenant-admin"}
"""Roles that find every call of their tenant, to list or to settle it."""


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
        {CallState.PARKED, CallState.DISPATCHED, CallState.DENIED, CallState.CANCELLED, CallState.FAILED},
    ),
    CallState.PARKED: frozenset({CallState.DISPATCHED, CallState.DENIED, CallState.CANCELLED}),
    CallState.DISPATCHED: frozenset({CallState.SUCCEEDED, CallState.FAILED, CallState.UNKNOWN}),
    CallState.UNKNOWN: frozenset({CallState.SUCCEEDED, CallState.FAILED, CallState.DISPATCHED}),
    CallState.SUCCEEDED: frozenset(),
    CallState.FAILED: frozenset(),
    CallState.DENIED: frozenset(),
    CallState.CANCELLED: frozenset(),
}


FINAL: Final = frozenset(state for state, moves in MOVES.items() if not moves)
"""States that nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """What is journaled when a call is first decided."""

    id: str
    issuer: str
    request_id: str
    skill: Skill
    arguments: bytes
    """Validated, canonical JSON: what runs."""
    action_digest: str
    asked_arguments: bytes = b""
    """What was asked for, where policy changed it."""
    asked_digest: str = ""
    state: CallState
    decision_id: str
    error_code: str = ""
    agent_message: str = ""
    lease_epoch: int = 0
    notices: tuple[Notice, ...] = ()
    """Who is told at once, for the call has ended with this."""


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
    asked_arguments: bytes
    """As asked for, where policy changed them; else empty."""
    rewritten: bool
    result: bytes
    full_result_bytes: int
    full_result_sha256: str
    fallback: bool
    error_code: str
    agent_message: str
    decision_id: str
    review_id: str
    session_id: str
    task_id: str
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

    def is_asked_by(self, *, user: str, chain: tuple[str, ...], skill: str, arguments: bytes) -> bool:
        """Tell whether a request asks for the very action that this call was asked for with."""
        asked = self.digest_for(user=user, chain=chain, skill=skill, arguments=arguments)
        kept = self.asked_arguments or self.arguments
        return asked == self.digest_for(user=self.user, chain=self.chain, skill=self.skill, arguments=kept)

    @property
    def withdrawn_unseen(self) -> bool:
        """Whether it was cancelled before it came: nothing is known of it but its request_id."""
        return self.skill == "" and self.state is CallState.CANCELLED

    def concerns(self, scope: Scope) -> bool:
        """Whether it is the scope's own: its user's, made by the agent of the scope or one below it."""
        return self.user == scope.user and self.chain[: len(scope.chain)] == scope.chain

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
        return replace(self, arguments=b"", asked_arguments=b"", result=b"")


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
    facts: frozenset[str] = frozenset()
    """What the result brings into the session of whoever reads it (obligations.FACTS)."""
    whole: bytes = b""
    """All of the result, where `result` is head and tail only."""
    fallback: bool = False
    """The skill's fallback answers; `kind` says what is known of the effect, and it is none."""

    @property
    def whole_sha256(self) -> str:
        """Digest of the whole result, hex, where it was cut; else empty."""
        return hashlib.sha256(self.whole).hexdigest() if self.whole else ""

    @property
    def state(self) -> CallState:
        """The state that the journal gets."""
        if self.kind is OutcomeKind.SUCCEEDED or (self.fallback and self.result):
            return CallState.SUCCEEDED
        return CallState.UNKNOWN if self.kind is OutcomeKind.UNKNOWN else CallState.FAILED
