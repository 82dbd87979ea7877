"""The one translation between our errors and google.rpc.Status on the wire.

Out: ErrorInfo(reason, domain "memoryos", metadata with the trace id), BadRequest
for field violations, RetryInfo. In: RemoteError, which is no MemoryOSError: what
a peer says to us is not what we say to our caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from memoryos_core.errors import (
    Code,
    DeadlineExceeded,
    DependencyUnavailable,
    FieldViolation,
    InternalError,
    MemoryOSError,
)

DOMAIN: Final = "memoryos"
DETAILS_KEY: Final = "grpc-status-details-bin"
VIOLATIONS_MAX: Final = 20
TEXT_CHARACTERS_MAX: Final = 200
METADATA_BYTES_MAX: Final = 1024
VIOLATIONS_BYTES_MAX: Final = 3072
"""All of a status must fit the 8 kB of trailing metadata that clients take, base64 and message included."""

_GRPC_CODES: Final = {code: grpc.StatusCode[code.value] for code in Code}
_TYPE_PREFIX: Final = "type.googleapis.com/"


def grpc_code(error: MemoryOSError) -> grpc.StatusCode:
    """Give the status code of an error."""
    return _GRPC_CODES[error.code]


def to_trailers(error: MemoryOSError, trace_id: str) -> tuple[tuple[str, bytes], ...]:
    """Give the trailing metadata that carries an error in full."""
    details: list[Any] = [_pack(_error_info(error, trace_id))]
    if error.violations:
        details.append(_pack(_bad_request(error.violations)))
    if error.retry_after_s is not None:
        delay = Duration()
        delay.FromMilliseconds(round(error.retry_after_s * 1000))
        details.append(_pack(RetryInfo(retry_delay=delay)))
    status = Status(code=grpc_code(error).value[0], message=_cut(error.message), details=details)
    return ((DETAILS_KEY, status.SerializeToString()),)


def public_message(error: MemoryOSError, trace_id: str) -> str:
    """Give the sentence for the caller; a fault of ours says nothing but where to look."""
    if error.code is Code.INTERNAL:
        return f"Internal error; trace {trace_id}."
    return _cut(error.message)


def from_unknown(error: BaseException) -> MemoryOSError:
    """Give what a caller is told of an exception that nobody foresaw: never its text.

    A peer that is down or late makes us unavailable or late; whatever else it
    said was meant for us.
    """
    code = error.code if isinstance(error, RemoteError) else None
    if isinstance(error, grpc.aio.AioRpcError):
        code = error.code().name
    if code == grpc.StatusCode.UNAVAILABLE.name:
        return DependencyUnavailable()
    if code == grpc.StatusCode.DEADLINE_EXCEEDED.name:
        return DeadlineExceeded()
    return InternalError()


class RemoteError(Exception):
    """What another service answered instead of a result.

    `code` is a gRPC status name, `reason` a name of one of its ErrorReasons or
    "" when the answer did not come from one of our services. The text form
    leaves out `message`, so that a peer's words do not spread by accident.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s


def remote_error(error: grpc.aio.AioRpcError) -> RemoteError:
    """Give the RemoteError that a failed call stands for."""
    info = ErrorInfo()
    violations: list[FieldViolation] = []
    retry_after_s: float | None = None
    for detail in _details(error):
        if detail.Is(ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(BadRequest.DESCRIPTOR):
            bad = BadRequest()
            detail.Unpack(bad)
            violations = [FieldViolation(v.field, v.description) for v in bad.field_violations]
        elif detail.Is(RetryInfo.DESCRIPTOR):
            retry = RetryInfo()
            detail.Unpack(retry)
            retry_after_s = retry.retry_delay.ToMilliseconds() / 1000
    ours = info.domain == DOMAIN
    return RemoteError(
        code=error.code().name,
        reason=info.reason if ours else "",
        message=error.details() or "",
        metadata=dict(info.metadata) if ours else {},
        violations=violations,
        retry_after_s=retry_after_s,
    )


def raise_from_rpc(error: grpc.aio.AioRpcError) -> NoReturn:
    """Raise the RemoteError that a failed call stands for."""
    raise remote_error(error) from error


def _details(error: grpc.aio.AioRpcError) -> list[Any]:
    status = Status()
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                status.ParseFromString(value)
            except DecodeError:
                return []
    return list(status.details)


def _error_info(error: MemoryOSError, trace_id: str) -> ErrorInfo:
    info = ErrorInfo(reason=error.reason, domain=DOMAIN)
    left_bytes = METADATA_BYTES_MAX
    for key, value in ((_cut(key), _cut(str(value))) for key, value in error.metadata.items()):
        left_bytes -= len(key.encode()) + len(value.encode())
        if left_bytes < 0:
            break
        info.metadata[key] = value
    if trace_id:
        info.metadata["trace_id"] = trace_id
    return info


def _bad_request(violations: Sequence[FieldViolation]) -> BadRequest:
    bad = BadRequest()
    left_bytes = VIOLATIONS_BYTES_MAX
    for violation in violations[:VIOLATIONS_MAX]:
        told = BadRequest.FieldViolation(field=_cut(violation.field), description=_cut(violation.description))
        left_bytes -= told.ByteSize()
        if left_bytes < 0:
            break
        bad.field_violations.append(told)
    return bad


def _pack(message: Message) -> Any:
    return Any(type_url=_TYPE_PREFIX + message.DESCRIPTOR.full_name, value=message.SerializeToString())


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[: TEXT_CHARACTERS_MAX - 1] + "…"
