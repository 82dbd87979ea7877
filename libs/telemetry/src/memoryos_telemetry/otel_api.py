"""Our spans behind OpenTelemetry's API, for libraries that ask it for a tracer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind

from memoryos_telemetry.recorded import SpanSink
from memoryos_telemetry.tracer import SpanScope, Tracer


class ApiTracerProvider(trace.TracerProvider):
    """Gives tracers whose spans go where ours go."""

    def __init__(self, sink: Callable[[], SpanSink | None]) -> None:
        self._sink = sink

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,
    ) -> trace.Tracer:
        """Give the tracer of a library."""
        return _ApiTracer(Tracer(self._sink, instrumenting_module_name))


class _ApiTracer(trace.Tracer):
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Any = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> Span:
        """Give a span that is not current. Links and exception texts are not kept."""
        return self._tracer.start(name, kind=kind, attributes=attributes, parent=context)

    @contextmanager
    def start_as_current_span(  # type: ignore[override]  # the API declares its own kind of context manager
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Any = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> Iterator[Span]:
        """Give a span that is current inside the block and ends with it."""
        with SpanScope(self._tracer.start(name, kind=kind, attributes=attributes, parent=context)) as span:
            yield span
