"""What every outgoing call gets: a client span, both credentials, the trace and a deadline."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Final

import grpc
from memoryos_core.errors import DeadlineExceeded
from memoryos_telemetry import names
from memoryos_telemetry.context import span_traceparent
from memoryos_telemetry.tracer import Tracer, fail_span
from opentelemetry.trace import Span, SpanKind

from memoryos_grpc.budget import remaining_s
from memoryos_grpc.caller import outgoing_subject_token
from memoryos_grpc.client.service_tokens import ServiceTokens
from memoryos_grpc.interceptors.authenticate import AUTHORIZATION, SERVICE_TOKEN
from memoryos_grpc.interceptors.tracing import TRACEPARENT

Metadata = Sequence[tuple[str, str | bytes]]
_OURS: Final = frozenset({AUTHORIZATION, SERVICE_TOKEN, TRACEPARENT})


class Outgoing:
    """Prepares calls of one channel."""

    def __init__(
        self, *, tracer: Tracer, service_tokens: ServiceTokens | None, audience: str, timeout_s: float
    ) -> None:
        self._tracer = tracer
        self._service_tokens = service_tokens
        self._audience = audience
        self._timeout_s = timeout_s

    def timeout_s(self, wanted_s: float | None, *, streams: bool) -> float | None:
        """Give the time-out of a call: what is wanted, else the default, never more than is left.

        A stream outside of a call has no default: its server bounds it. Raises
        DeadlineExceeded when nothing is left.
        """
        allowed_s = wanted_s if wanted_s is not None or streams else self._timeout_s
        left_s = remaining_s()
        if left_s is None:
            return allowed_s
        if left_s <= 0:
            raise DeadlineExceeded
        return left_s if allowed_s is None else min(allowed_s, left_s)

    def metadata(self, span: Span, given: Metadata | None) -> list[tuple[str, str | bytes]]:
        """Give the metadata of a call; raises ValueError when `given` says what is ours to say."""
        metadata = list(given or ())
        if not _OURS.isdisjoint(key.lower() for key, _ in metadata):
            raise ValueError("credentials and trace are set by the channel")
        subject = outgoing_subject_token()
        if subject is not None:
            metadata.append((AUTHORIZATION, f"Bearer {subject}"))
        if self._service_tokens is not None:
            metadata.append((SERVICE_TOKEN, self._service_tokens.token(self._audience)))
        metadata.append((TRACEPARENT, span_traceparent(span)))
        return metadata

    def start_span(self, method: str) -> Span:
        """Give the client span of a call, child of the current one."""
        service, _, name = method[1:].partition("/")
        return self._tracer.start(
            method[1:],
            kind=SpanKind.CLIENT,
            attributes={names.RPC_SYSTEM: "grpc", names.RPC_SERVICE: service, names.RPC_METHOD: name},
        )


def end_with_call(span: Span, call: grpc.aio.Call) -> None:
    """End the span when the call ends, however it ends, without awaiting it."""

    def done(_: object) -> None:
        code = _result_now(call.code()) or grpc.StatusCode.UNKNOWN
        span.set_attribute(names.RPC_GRPC_STATUS_CODE, code.value[0])
        if code is not grpc.StatusCode.OK:
            fail_span(span, code.name)
        span.end()

    call.add_done_callback(done)


def _result_now(ready: Coroutine[Any, Any, grpc.StatusCode]) -> grpc.StatusCode | None:
    """Give the result of a coroutine that has nothing left to wait for, else None."""
    try:
        ready.send(None)
    except StopIteration as stop:
        code: grpc.StatusCode = stop.value
        return code
    ready.close()
    return None
