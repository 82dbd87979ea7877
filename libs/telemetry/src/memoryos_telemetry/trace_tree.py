"""One trace as a tree, read from the span files of a folder (`mos trace TASK`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoryos_telemetry.names import KEY_IDS
from memoryos_telemetry.span_file import span_files
from memoryos_telemetry.span_lines import SpanLine, read_lines

INDENT_DEPTH_MAX: Final = 40
"""Deeper spans are drawn at this depth, so that a terminal can show them."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A span at its place in the tree."""

    span: SpanLine
    depth: int
    lead: str
    """Lines of the drawing to the left of the span."""


@dataclass(frozen=True, slots=True)
class TraceTree:
    """All spans of one trace that the files hold, parents first, siblings by start.

    It is connected when everything hangs from one span; a parent that no file
    holds leaves its children as further parts.
    """

    trace_id: str
    rows: tuple[TreeRow, ...]

    @property
    def parts(self) -> int:
        """How many spans have no parent here."""
        return sum(row.depth == 0 for row in self.rows)

    @property
    def connected(self) -> bool:
        """Whether there is exactly one part."""
        return self.parts == 1

    @property
    def spans(self) -> tuple[SpanLine, ...]:
        """All spans, parents first."""
        return tuple(row.span for row in self.rows)

    @property
    def services(self) -> frozenset[str]:
        """The services that took part."""
        return frozenset(row.span.service for row in self.rows)

    def render(self) -> str:
        """Give the tree as text for a terminal: name, service, duration, status, key ids."""
        if not self.rows:
            return f"trace {self.trace_id}: no spans here"
        lines = [f"trace {self.trace_id}  {len(self.rows)} spans  {len(self.services)} services"]
        if not self.connected:
            lines.append(f"NOT CONNECTED: {self.parts} parts; the parents of the later ones are missing")
        lines.extend(row.lead + _describe(row.span) for row in self.rows)
        return "\n".join(lines)


def trace_tree(folder: Path, trace_id: str) -> TraceTree:
    """Give the tree of one trace from all span files of `folder`."""
    return build_tree(trace_id, (line for path in span_files(folder) for line in read_lines(path, trace_id=trace_id)))


def build_tree(trace_id: str, lines: Iterable[SpanLine]) -> TraceTree:
    """Give the tree of spans of one trace; the line of an ended span replaces that of its start."""
    spans: dict[str, SpanLine] = {}
    for line in lines:
        known = spans.get(line.span_id)
        if known is None or known.end_ns is None:
            spans[line.span_id] = line
    ordered = sorted(spans.values(), key=lambda s: (s.start_ns, s.span_id))
    children: dict[str, list[SpanLine]] = {}
    for span in ordered:
        if span.parent_id in spans:
            children.setdefault(str(span.parent_id), []).append(span)
    rows: list[TreeRow] = []
    seen: set[str] = set()
    for top in (span for span in ordered if span.parent_id not in spans):
        _walk(top, children, rows, seen)
    # What is left hangs in circles: each is a part that starts anywhere.
    for span in ordered:
        if span.span_id not in seen:
            _walk(span, children, rows, seen)
    return TraceTree(trace_id=trace_id, rows=tuple(rows))


def _walk(top: SpanLine, children: dict[str, list[SpanLine]], rows: list[TreeRow], seen: set[str]) -> None:
    """Add `top` and all below it, each once. Without recursion: a trace may be deeper than the stack."""
    seen.add(top.span_id)
    waiting = [(top, 0, "", "")]
    while waiting:
        span, depth, lead, branch = waiting.pop()
        rows.append(TreeRow(span, depth, lead + branch))
        below = lead
        if depth < INDENT_DEPTH_MAX:
            below += {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        fresh = [child for child in children.get(span.span_id, ()) if child.span_id not in seen]
        seen.update(child.span_id for child in fresh)
        for child in reversed(fresh):
            waiting.append((child, depth + 1, below, "└─ " if child is fresh[-1] else "├─ "))


def _describe(span: SpanLine) -> str:
    if span.end_ns is None:
        outcome = "unfinished"
    else:
        outcome = f"{(span.end_ns - span.start_ns) / 1e6:.1f} ms  {span.error_type or 'ok'}"
    kind = {"server": " <", "client": " >"}.get(span.kind, "")
    ids = "  ".join(f"{key.rpartition('.')[2]}={span.attributes[key]}" for key in KEY_IDS if key in span.attributes)
    return f"{span.name}{kind}  [{span.service}]  {outcome}" + (f"  {ids}" if ids else "")
