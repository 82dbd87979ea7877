"""Errors of the SDK: one class per gRPC code, each with the service's reason.

`reason` is a name of an ErrorReason enum in the protos (without ERROR_REASON_),
so programs branch on the class and the reason, never on the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from memoryos_core.errors import FieldViolation

_DETAILS_KEY: Final = "grpc-status-details-bin"


@dataclass(frozen=True, kw_only=True)
class ErrorDetails:
    """What a service says about an error beside its code and sentence."""

    reason: str = ""
    metadata: Mapping[str, str] | None = None
    violations: Sequence[FieldViolation] = ()
    retry_after_s: float | None = None


class CallError(Exception):
    """A call that gave no answer. `code` is the gRPC name, `retry_after_s` the service's advice."""

    code: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, details: ErrorDetails | None = None) -> None:
        details = details or ErrorDetails()
        self.message = message
        self.reason = details.reason
        self.metadata = dict(details.metadata or {})
        self.violations = tuple(details.violations)
        self.retry_after_s = details.retry_after_s
        super().__init__(f"{message} ({self.reason})" if self.reason else message)


class InvalidArgument(CallError):
    """The request breaks a rule; `violations` names each field. Also raised before anything is sent."""

    code = "INVALID_ARGUMENT"

    @classmethod
    def of(cls, field: str, description: str) -> InvalidArgument:
        """Give the error of one field."""
        violations = (FieldViolation(field, description),)
        return cls(f"{field}: {description}", ErrorDetails(reason="INVALID_FIELD", violations=violations))


class Unauthenticated(CallError):
    """The token is missing, expired or not valid here."""

    code = "UNAUTHENTICATED"


class PermissionDenied(CallError):
    """The token does not reach this method or place."""

    code = "PERMISSION_DENIED"


class NotFound(CallError):
    """Not there, or not visible to this caller."""

    code = "NOT_FOUND"


class AlreadyExists(CallError):
    """It is there already."""

    code = "ALREADY_EXISTS"


class Aborted(CallError):
    """Somebody else was faster: a stale etag, or a request_id used with another body."""

    code = "ABORTED"


class FailedPrecondition(CallError):
    """The state of the resource forbids it."""

    code = "FAILED_PRECONDITION"


class ResourceExhausted(CallError):
    """A limit was reached; wait `retry_after_s`."""

    code = "RESOURCE_EXHAUSTED"


class DeadlineExceeded(CallError):
    """No answer in time. A write may have happened: the same request_id tells."""

    code = "DEADLINE_EXCEEDED"


class Cancelled(CallError):
    """The call was withdrawn."""

    code = "CANCELLED"


class Unavailable(CallError):
    """The service does not answer, also after the SDK's own retries."""

    code = "UNAVAILABLE"


class Unimplemented(CallError):
    """The service does not know this method."""

    code = "UNIMPLEMENTED"


class Internal(CallError):
    """A fault of the service; metadata has the trace id."""

    code = "INTERNAL"


_BY_CODE: Final[dict[str, type[CallError]]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        Unauthenticated,
        PermissionDenied,
        NotFound,
        AlreadyExists,
        Aborted,
        FailedPrecondition,
        ResourceExhausted,
        DeadlineExceeded,
        Cancelled,
        Unavailable,
        Unimplemented,
        Internal,
    )
}


def from_rpc(error: grpc.aio.AioRpcError) -> CallError:
    """Give the typed error of a failed call; an unknown code becomes CallError itself."""
    kind = _BY_CODE.get(error.code().name, CallError)
    return kind(error.details() or kind.__name__, _details(error))


def _details(error: grpc.aio.AioRpcError) -> ErrorDetails:
    """Read google.rpc.Status from the trailers; what cannot be read counts as absent."""
    raw = next((value for key, value in error.trailing_metadata() or () if key == _DETAILS_KEY), b"")
    status = status_pb2.Status()
    try:
        status.ParseFromString(raw)
    except DecodeError:
        return ErrorDetails()
    info = error_details_pb2.ErrorInfo()
    bad_request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    retry_after_s: float | None = None
    for detail in status.details:
        if detail.Is(retry.DESCRIPTOR):
            detail.Unpack(retry)
            retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
        elif detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(bad_request.DESCRIPTOR):
            detail.Unpack(bad_request)
    return ErrorDetails(
        reason=info.reason,
        metadata=dict(info.metadata),
        violations=tuple(FieldViolation(v.field, v.description) for v in bad_request.field_violations),
        retry_after_s=retry_after_s,
    )
