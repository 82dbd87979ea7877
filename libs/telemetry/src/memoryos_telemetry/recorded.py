"""A span as we record it: a name, times, a few attributes, and whether it failed. Never a text.

It is an OpenTelemetry API span, so libraries can use it; what could carry
content (events, exception texts, status descriptions) is dropped here, once.
The SDK's own span costs five times as much on every call (20 µs against 4).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from opentelemetry.trace import INVALID_SPAN_ID, INVALID_TRACE_ID, Span, SpanContext, SpanKind, StatusCode, TraceFlags

ATTRIBUTES_MAX: Final = 64
CHARACTERS_MAX: Final = 256
"""An attribute is an id, a name or a number; what is longer is cut."""
ELEMENTS_MAX: Final = 32

Value = str | bool | int | float | tuple[str | bool | int | float, ...]
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class SpanSink(Protocol):
    """Takes spans. Neither method waits for anything but the local disk's cache."""

    def started(self, span: RecordedSpan) -> None:
        """Take note of a span that starts."""

    def ended(self, span: RecordedSpan) -> None:
        """Keep a span that has ended; it does not change any more."""

    def flush(self) -> None:
        """Make sure that what was taken outlives this process."""


class RecordedSpan(Span):
    """A span on its way to a sink."""

    __slots__ = ("attributes", "context", "end_ns", "failed", "kind", "name", "parent", "scope", "sink", "start_ns")

    def __init__(
        self,
        sink: SpanSink,
        scope: str,
        name: str,
        kind: SpanKind,
        parent: SpanContext | None,
        attributes: Mapping[str, Any] | None,
    ) -> None:
        self.sink = sink
        self.scope = scope
        self.name = name
        self.kind = kind
        self.parent = parent
        self.failed = False
        self.end_ns: int | None = None
        self.attributes: dict[str, Value] = {}
        self.context = SpanContext(
            trace_id=parent.trace_id if parent else _random_id(128, INVALID_TRACE_ID),
            span_id=_random_id(64, INVALID_SPAN_ID),
            is_remote=False,
            trace_flags=_SAMPLED,
        )
        if attributes:
            self.set_attributes(attributes)
        self.start_ns = time.time_ns()
        sink.started(self)

    @property
    def is_local_root(self) -> bool:
        """Whether nothing in this process is above it."""
        return self.parent is None or self.parent.is_remote

    def end(self, end_time: int | None = None) -> None:
        """End the span; the first time counts."""
        if self.end_ns is None:
            self.end_ns = max(end_time or time.time_ns(), self.start_ns)
            self.sink.ended(self)

    def get_span_context(self) -> SpanContext:
        """Give its ids."""
        return self.context

    def set_attribute(self, key: str, value: Any) -> None:
        """Set one attribute, cut to its limits; beyond the most attributes it is dropped."""
        if self.end_ns is None and (key in self.attributes or len(self.attributes) < ATTRIBUTES_MAX):
            self.attributes[key] = _bounded(value)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set several attributes."""
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def set_status(self, status: Any, description: str | None = None) -> None:
        """Mark the span as failed when the status is ERROR; a description is dropped."""
        code = status if isinstance(status, StatusCode) else status.status_code
        if code is StatusCode.ERROR:
            self.failed = True

    def update_name(self, name: str) -> None:
        """Change the name."""
        self.name = name

    def is_recording(self) -> bool:
        """Tell whether it still runs."""
        return self.end_ns is None

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Drop the event: it could carry content."""

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        """Drop the exception: its text could carry content. Its kind is the attribute error.type."""


def _random_id(bits: int, invalid: int) -> int:
    while (number := random.getrandbits(bits)) == invalid:
        pass
    return number


def _bounded(value: Any) -> Value:
    if isinstance(value, str):
        return value if len(value) <= CHARACTERS_MAX else value[:CHARACTERS_MAX]
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return tuple(v if isinstance(v, bool | int | float) else str(v)[:CHARACTERS_MAX] for v in value[:ELEMENTS_MAX])
    return f"<{type(value).__qualname__}>"
