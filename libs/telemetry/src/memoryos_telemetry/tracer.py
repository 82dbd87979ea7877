"""Spans that end with a status whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from memoryos_core.errors import MemoryOSError
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanKind, StatusCode

from memoryos_telemetry.names import ERROR_TYPE
from memoryos_telemetry.recorded import RecordedSpan, SpanSink

Attributes = Mapping[str, Any]
"""Ids, names and numbers; never content."""


def error_type(error: BaseException) -> str:
    """Give the low-cardinality name of an error: our reason, else its class."""
    if isinstance(error, MemoryOSError):
        return error.reason
    if isinstance(error, asyncio.CancelledError):
        return "CANCELLED"
    return type(error).__qualname__


def fail_span(span: Span, kind: str) -> None:
    """Mark a span as failed; `kind` is a name like those of `error_type`, never a text."""
    span.set_status(StatusCode.ERROR)
    span.set_attribute(ERROR_TYPE, kind)


class SpanScope:
    """A span that is current inside a `with` block and ends with it."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        self._token = otel_context.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        otel_context.detach(self._token)
        if error is not None and not isinstance(error, GeneratorExit):
            fail_span(self._span, error_type(error))
        self._span.end()


class Tracer:
    """Makes the spans of one library or service."""

    def __init__(self, sink: Callable[[], SpanSink | None], scope: str) -> None:
        self._sink = sink
        self._scope = scope

    def span(
        self,
        name: str,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        parent: Context | None = None,
    ) -> SpanScope:
        """Give a span for a `with` block: child of the current one, or of `parent`.

        It ends with status ERROR and error.type when an exception passes,
        cancellation included.
        """
        return SpanScope(self.start(name, kind=kind, attributes=attributes, parent=parent))

    def start(
        self,
        name: str,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        parent: Context | None = None,
    ) -> Span:
        """Give a span that is not current; the caller must call its `end`."""
        above = trace.get_current_span(parent).get_span_context()
        sink = self._sink()
        if sink is None:
            return NonRecordingSpan(above)
        return RecordedSpan(sink, self._scope, name, kind, above if above.is_valid else None, attributes)
