"""Spans that end with a status whatever happens, and never carry content.

The SDK's own `start_as_current_span` writes exception texts into events and
status; texts can hold secrets, so spans here keep the *type* of an error only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType

from memoryos_core.errors import MemoryOSError
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from memoryos_telemetry.names import ERROR_TYPE

Attributes = Mapping[str, str | bool | int | float]

_ERROR = Status(StatusCode.ERROR)


def error_type(error: BaseException) -> str:
    """Give the low-cardinality name of an error: our reason, else its class."""
    if isinstance(error, MemoryOSError):
        return error.reason
    if isinstance(error, asyncio.CancelledError):
        return "CANCELLED"
    return type(error).__qualname__


def fail_span(span: Span, kind: str) -> None:
    """Mark a span as failed; `kind` is a name of `error_type`, never a text."""
    span.set_status(_ERROR)
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

    def __init__(self, provider: Callable[[], trace.TracerProvider], name: str) -> None:
        self._provider = provider
        self._name = name
        self._cache: tuple[trace.TracerProvider, trace.Tracer] | None = None

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
        provider = self._provider()
        if self._cache is None or self._cache[0] is not provider:
            self._cache = (provider, provider.get_tracer(self._name))
        return self._cache[1].start_span(
            name,
            context=parent,
            kind=kind,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
