"""First: one server span per call, ended with a status whatever happens."""

from __future__ import annotations

import asyncio

import grpc
from memoryos_telemetry import Telemetry, names
from memoryos_telemetry.context import remote_context
from memoryos_telemetry.tracer import fail_span
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from memoryos_grpc.call import IncomingCall
from memoryos_grpc.ports import Proceed

TRACEPARENT = "traceparent"


class Tracing:
    """Continues the caller's trace, or starts one.

    The stock aio instrumentation leaves cancelled, timed-out and raising calls
    UNSET with code 0; here every failure is ERROR with error.type.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._tracer = telemetry.tracer("memoryos_grpc")

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Run the call inside its span."""
        self._telemetry.enter()
        parents = call.values(TRACEPARENT)
        parent = parents[0] if len(parents) == 1 and isinstance(parents[0], str) else ""
        span = self._tracer.start(
            call.method.full_name[1:],
            kind=SpanKind.SERVER,
            attributes={names.RPC_SYSTEM: "grpc"},
            parent=remote_context(parent),
        )
        token = otel_context.attach(trace.set_span_in_context(span))
        try:
            await proceed(call)
        except asyncio.CancelledError:
            left_s = call.context.time_remaining()
            late = left_s is not None and left_s <= 0
            call.code = grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
            call.error_type = call.code.name
            raise
        except BaseException:
            if call.code is grpc.StatusCode.OK:  # a handler that called context.abort itself
                call.code, call.error_type = grpc.StatusCode.UNKNOWN, "ABORTED_BY_HANDLER"
            raise
        finally:
            otel_context.detach(token)
            span.set_attribute(names.RPC_GRPC_STATUS_CODE, call.code.value[0])
            if call.error_type:
                fail_span(span, call.error_type)
            span.end()
