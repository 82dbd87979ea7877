"""Logs: one JSON object a line on stderr, joined to traces by the trace id.

The text of an exception may hold a secret or content, so a log line gives its
type and where it was raised, never what it said.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TextIO

from opentelemetry import trace

FRAMES_MAX: Final = 20
"""Innermost frames of a traceback that are logged."""

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats records as JSON; keys given in `extra` become fields."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Give one line of JSON, ASCII only."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line["trace_id"] = f"{context.trace_id:032x}"
            line["span_id"] = f"{context.span_id:016x}"
        line.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe_error(record.exc_info[1])
        return json.dumps(line, default=_type_name)


def describe_error(error: BaseException) -> list[dict[str, Any]]:
    """Give types and places of an error and its causes, outermost first, without their texts."""
    chain: list[dict[str, Any]] = []
    current: BaseException | None = error
    while current is not None and len(chain) < 8:
        chain.append({"type": type(current).__qualname__, "frames": _frames(current.__traceback__)})
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return chain


def _frames(tb: TracebackType | None) -> list[str]:
    frames = traceback.StackSummary.extract(traceback.walk_tb(tb), lookup_lines=False)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-FRAMES_MAX:]]


def _type_name(value: object) -> str:
    return f"<{type(value).__qualname__}>"


class _Handler(logging.StreamHandler[TextIO]):
    """Our handler, known by its type so that a second configuration replaces it."""


def configure_logs(service: str, level: str, stream: TextIO | None = None) -> None:
    """Send the logs of this process to stderr (or `stream`) as JSON, replacing an earlier set-up of ours."""
    handler = _Handler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
