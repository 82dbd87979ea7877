"""W3C trace context as text, so that rows and metadata can keep and continue a trace.

Format: https://www.w3.org/TR/trace-context/#traceparent-header (version 00).
"""

from __future__ import annotations

import re
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags

from memoryos_telemetry.recorded import RecordedSpan

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z")


def span_traceparent(span: Span) -> str:
    """Give the traceparent of a span, or "" for the span that is none.

    Whoever gets it may outlive this process, so the span is in the local file first.
    """
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    if isinstance(span, RecordedSpan):
        span.sink.flush()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def current_traceparent() -> str:
    """Give the traceparent of the span that runs here, or "" outside of one."""
    return span_traceparent(trace.get_current_span())


def current_trace_id() -> str:
    """Give the 32 hex digits of the trace that runs here, or "" outside of one."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""


def trace_id_of(traceparent: str) -> str:
    """Give the trace id in a traceparent, or "" when it is malformed."""
    match = _parse(traceparent)
    return match[2] if match else ""


def remote_context(traceparent: str) -> Context:
    """Give a context whose spans become children of `traceparent`.

    A malformed or empty text gives a context without a parent: a new trace.
    The sampled flag of the other side is not obeyed; every trace is recorded.
    """
    match = _parse(traceparent)
    if match is None:
        return Context()
    parent = SpanContext(
        trace_id=int(match[2], 16), span_id=int(match[3], 16), is_remote=True, trace_flags=TraceFlags(int(match[4], 16))
    )
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def _parse(traceparent: str) -> re.Match[str] | None:
    match = _TRACEPARENT.match(traceparent)
    if match is None or match[1] == "ff" or not int(match[2], 16) or not int(match[3], 16):
        return None
    if match[1] == "00" and match[5]:
        return None
    return match


class _Attached:
    """A context that is current inside a `with` block."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = otel_context.attach(self._context)

    def __exit__(self, *_: object) -> None:
        otel_context.detach(self._token)


def continue_trace(traceparent: str) -> _Attached:
    """Make spans inside a `with` block children of a kept traceparent."""
    return _Attached(remote_context(traceparent))
