"""The form of the local span files: one JSON object a line, ASCII only.

A line is written for a span that has started (so that a killed process leaves
its open spans behind) and again, complete, when it has ended. ASCII, because
U+2028 and NEL end a line for some readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from opentelemetry.trace import SpanKind

from memoryos_telemetry.names import ERROR_TYPE
from memoryos_telemetry.recorded import RecordedSpan

LINE_BYTES_MAX: Final = 64 * 1024
"""A longer line is not one of ours: readers skip it, writers drop it."""

_KINDS: Final = {kind: kind.name.lower() for kind in SpanKind}
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_quote: Final = lru_cache(maxsize=4096)(json.dumps)


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


def encode(span: RecordedSpan, service: str) -> bytes:
    """Give the line of a span as it is now: running or ended."""
    context, parent = span.context, span.parent
    parent_id = f'"{parent.span_id:016x}"' if parent else "null"
    if span.end_ns is None:
        end = ""
    else:
        failed = "true" if span.failed else "false"
        end = f',"end_ns":{span.end_ns},"failed":{failed},"attributes":{_encode(span.attributes)}'
    return (
        f'{{"trace_id":"{context.trace_id:032x}","span_id":"{context.span_id:016x}","parent_id":{parent_id},'
        f'"name":{_quote(span.name)},"service":{_quote(service)},"kind":"{_KINDS[span.kind]}",'
        f'"start_ns":{span.start_ns}{end}}}\n'
    ).encode()


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
