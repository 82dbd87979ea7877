"""What an audit row says. Ids, codes and tenant-keyed HMACs only: no content, no names of things that users chose."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity

UNKNOWN_TENANT: Final = "/unknown"
"""Tenant of rows about callers that nobody could verify. A slash is in no tenant's name (principals.is_name)."""
TARGET_IDS_MAX: Final = 10_000
ATTRIBUTES_MAX: Final = 32
_ID_LIKE: Final = re.compile(r"[^\s\x00-\x1f\x7f\ud800-\udfff]{1,512}")


class Kind(StrEnum):
    """What happened."""

    CALL_TOOL = "CALL_TOOL"
    TOOL_RESULT = "TOOL_RESULT"
    MEMORY_READ = "MEMORY_READ"
    MEMORY_WRITE = "MEMORY_WRITE"
    FILE_ACCESS = "FILE_ACCESS"
    AUTH_FAILED = "AUTH_FAILED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    TASK_STARTED = "TASK_STARTED"
    TASK_FINISHED = "TASK_FINISHED"
    TASK_PAUSED = "TASK_PAUSED"
    TASK_RESUMED = "TASK_RESUMED"
    TOKEN_ISSUED = "TOKEN_ISSUED"  # noqa: S105 - a kind of event
    DECISION = "DECISION"
    REVIEW_OPENED = "REVIEW_OPENED"
    REVIEW_RESOLVED = "REVIEW_RESOLVED"
    SESSION_READ = "SESSION_READ"
    SESSION_WRITE = "SESSION_WRITE"
    ADMIN_ACT = "ADMIN_ACT"


class Outcome(StrEnum):
    """How it ended."""

    OK = "OK"
    DENIED = "DENIED"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"


class AuditEventInvalid(ValueError):
    """An audit event holds something that is no id: a bug where it was made."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it, on whose behalf, and in which session and task."""

    tenant: str
    user: str = ""
    principal: str = ""
    chain: tuple[str, ...] = ()
    session_id: str = ""
    task_id: str = ""

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """The actor of a verified call."""
        return cls(scope.tenant, scope.user, scope.actor, scope.chain, scope.session_id, scope.task_id)

    @classmethod
    def of_identity(cls, identity: Identity) -> Self:
        """The actor that a verified token names."""
        return cls.of(Scope.of(identity))

    @classmethod
    def unknown(cls) -> Self:
        """The actor of a call without a valid token: nothing that it says about itself is kept."""
        return cls(UNKNOWN_TENANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One call, decision or act. `target_ids` lists all things that one call touched.

    `trace_id` empty = the trace that runs where the event is recorded. A thing
    without an id (a path, an argument) appears as `TenantKeys.audit_hmac` in `target_hmac`.
    """

    kind: Kind
    actor: Actor
    service: str
    method: str = ""
    outcome: Outcome = Outcome.OK
    reason: str = ""
    target_type: str = ""
    target_ids: Sequence[str] = ()
    target_hmac: str = ""
    task_id: str = ""
    call_id: str = ""
    decision_id: str = ""
    trace_id: str = ""
    count: int = 1
    duration_us: int | None = None
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.target_ids) > TARGET_IDS_MAX or len(self.attributes) > ATTRIBUTES_MAX:
            raise AuditEventInvalid("too many targets or attributes for one row")
        single = (self.service, self.method, self.reason, self.target_type, self.target_hmac)
        joined = (self.task_id, self.call_id, self.decision_id, self.trace_id)
        texts = [text for text in (*single, *joined) if text]
        texts += [value for value in self.attributes.values() if isinstance(value, str) and value]
        for text in (*texts, *self.target_ids, *self.attributes):
            if not _ID_LIKE.fullmatch(text):
                raise AuditEventInvalid("a value is no id")
