"""The form of the local span files: one JSON object a line, ASCII only.

A line is written when a span starts (so that a killed process leaves its open
spans behind) and again, complete, when it ends. ASCII, because U+2028 and NEL
end a line for some readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from memoryos_telemetry.names import ERROR_TYPE

LINE_BYTES_MAX: Final = 64 * 1024
"""A longer line is not one of ours: readers skip it, writers drop it."""

_KINDS: Final = {kind: kind.name.lower() for kind in SpanKind}
_encode: Final = json.JSONEncoder(separators=(",", ":"), default=str).encode


@dataclass(frozen=True, slots=True)
class SpanLine:
    """One span as read back. `end_ns` is None while it runs, or if its process died."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    service: str
    kind: str
    start_ns: int
    end_ns: int | None = None
    failed: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error_type(self) -> str:
        """The kind of error of a failed span, else ""."""
        return str(self.attributes.get(ERROR_TYPE, "ERROR")) if self.failed else ""


def encode_start(span: ReadableSpan, service: str) -> bytes:
    """Give the line of a span that starts."""
    return (_encode(_head(span, service)) + "\n").encode()


def encode_end(span: ReadableSpan, service: str) -> bytes:
    """Give the line of a span that has ended."""
    line = _head(span, service)
    line["end_ns"] = span.end_time
    line["failed"] = span.status.status_code is StatusCode.ERROR
    line["attributes"] = dict(span.attributes or {})
    return (_encode(line) + "\n").encode()


def _head(span: ReadableSpan, service: str) -> dict[str, Any]:
    context = span.get_span_context()
    assert context is not None
    return {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "parent_id": f"{span.parent.span_id:016x}" if span.parent else None,
        "name": span.name,
        "service": service,
        "kind": _KINDS[span.kind],
        "start_ns": span.start_time,
    }


def read_lines(path: Path, *, trace_id: str | None = None) -> Iterator[SpanLine]:
    """Give the whole lines of a span file, all or those of one trace.

    A torn, malformed or overlong line is skipped: the file of a killed process
    ends anywhere. A file that rotation removes meanwhile gives what it gave.
    """
    needle = trace_id.encode() if trace_id else b""
    try:
        with path.open("rb") as file:
            while raw := file.readline(LINE_BYTES_MAX):
                line = _decode(raw) if needle in raw and raw.endswith(b"\n") else None
                if line is not None and trace_id in (None, line.trace_id):
                    yield line
    except FileNotFoundError:
        return


def _decode(raw: bytes) -> SpanLine | None:
    try:
        line = json.loads(raw)
        return SpanLine(
            trace_id=str(line["trace_id"]),
            span_id=str(line["span_id"]),
            parent_id=None if line["parent_id"] is None else str(line["parent_id"]),
            name=str(line["name"]),
            service=str(line["service"]),
            kind=str(line["kind"]),
            start_ns=int(line["start_ns"]),
            end_ns=int(line["end_ns"]) if "end_ns" in line else None,
            failed=bool(line.get("failed", False)),
            attributes=dict(line.get("attributes", {})),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
