"""One family of errors, translated once to gRPC at the edge (memoryos_grpc.status).

Every error has a code (what a client may do about it), a reason (a name of an
ErrorReason enum in the protos) and metadata without content. The docstring of
a class without message is its message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Code(StrEnum):
    """The gRPC status codes that services give, by name."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    UNAUTHENTICATED = "UNAUTHENTICATED"


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field that breaks a rule. `field` is a dotted path, e.g. entries[0].content."""

    field: str
    description: str


class MemoryOSError(Exception):
    """An error that a caller is told about."""

    code: ClassVar[Code] = Code.INTERNAL
    reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        message: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        retry_after_s: float | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s
        super().__init__(self.message)


class InternalError(MemoryOSError):
    """A fault of ours; the trace id leads to it."""


class InvalidField(MemoryOSError):
    """A field breaks its rules."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_FIELD"

    @classmethod
    def of(cls, field: str, description: str) -> InvalidField:
        """Give the error of one field."""
        return cls(f"{field}: {description}", violations=(FieldViolation(field, description),))


class InvalidPageToken(MemoryOSError):
    """The page token does not belong to this caller, filter and order."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_PAGE_TOKEN"


class TokenMissing(MemoryOSError):
    """Exactly one bearer token is needed in the authorization metadata."""

    code = Code.UNAUTHENTICATED
    reason = "TOKEN_MISSING"


class TokenInvalid(MemoryOSError):
    """The token does not verify."""

    code = Code.UNAUTHENTICATED
    reason = "TOKEN_INVALID"


class TokenExpired(MemoryOSError):
    """The token is past its expiry or not valid yet."""

    code = Code.UNAUTHENTICATED
    reason = "TOKEN_EXPIRED"


class TokenAudience(MemoryOSError):
    """The token was issued for another service."""

    code = Code.UNAUTHENTICATED
    reason = "TOKEN_AUDIENCE"


class ServiceTokenRequired(MemoryOSError):
    """Only services may call this method, each with its own token."""

    code = Code.PERMISSION_DENIED
    reason = "SERVICE_TOKEN_REQUIRED"


class RoleRequired(MemoryOSError):
    """The caller has none of the roles that this method needs."""

    code = Code.PERMISSION_DENIED
    reason = "ROLE_REQUIRED"


class NotAllowed(MemoryOSError):
    """The caller's token does not reach this resource."""

    code = Code.PERMISSION_DENIED
    reason = "NOT_ALLOWED"


class RequestIdReused(MemoryOSError):
    """The same request_id came with another body."""

    code = Code.ABORTED
    reason = "REQUEST_ID_REUSED"


class LimitExceeded(MemoryOSError):
    """A limit was reached."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "LIMIT_EXCEEDED"


class DependencyUnavailable(MemoryOSError):
    """A store or service that this call needs does not answer."""

    code = Code.UNAVAILABLE
    reason = "DEPENDENCY_UNAVAILABLE"


class DeadlineExceeded(MemoryOSError):
    """The deadline has passed or leaves too little time."""

    code = Code.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"


class AuditUnavailable(MemoryOSError):
    """The audit cannot be written: the call is refused."""

    code = Code.UNAVAILABLE
    reason = "AUDIT_UNAVAILABLE"


class SealedKeyUnavailable(MemoryOSError):
    """Sealed content cannot be opened: its key is destroyed or unknown."""

    code = Code.FAILED_PRECONDITION
    reason = "SEALED_KEY_UNAVAILABLE"


class JobNotFound(MemoryOSError):
    """No such job, or none that the caller may see."""

    code = Code.NOT_FOUND
    reason = "JOB_NOT_FOUND"
