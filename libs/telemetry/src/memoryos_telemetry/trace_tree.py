"""One trace as a tree, read from the span files of a folder (`mos trace TASK`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memoryos_telemetry.names import KEY_IDS
from memoryos_telemetry.span_file import span_files
from memoryos_telemetry.span_lines import SpanLine, read_lines


@dataclass(frozen=True, slots=True)
class TreeSpan:
    """A span and its children, by start time."""

    span: SpanLine
    children: tuple[TreeSpan, ...]

    def walk(self) -> Iterator[SpanLine]:
        """Give this span and all below it, parents first."""
        yield self.span
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class TraceTree:
    """All spans of one trace that the files hold.

    It is connected when everything hangs from one span; a parent that no file
    holds leaves its children as further roots.
    """

    trace_id: str
    roots: tuple[TreeSpan, ...]

    @property
    def connected(self) -> bool:
        """Whether there is exactly one root."""
        return len(self.roots) == 1

    @property
    def spans(self) -> tuple[SpanLine, ...]:
        """All spans, parents first."""
        return tuple(span for root in self.roots for span in root.walk())

    @property
    def services(self) -> frozenset[str]:
        """The services that took part."""
        return frozenset(span.service for span in self.spans)

    def render(self) -> str:
        """Give the tree as text for a terminal: name, service, duration, status, key ids."""
        if not self.roots:
            return f"trace {self.trace_id}: no spans here"
        spans = self.spans
        lines = [f"trace {self.trace_id}  {len(spans)} spans  {len(self.services)} services"]
        if not self.connected:
            lines.append(f"NOT CONNECTED: {len(self.roots)} parts; parents of the later ones are missing")
        for root in self.roots:
            lines.extend(_render(root, "", ""))
        return "\n".join(lines)


def trace_tree(folder: Path, trace_id: str) -> TraceTree:
    """Give the tree of one trace from all span files of `folder`."""
    return build_tree(trace_id, (line for path in span_files(folder) for line in read_lines(path, trace_id=trace_id)))


def build_tree(trace_id: str, lines: Iterable[SpanLine]) -> TraceTree:
    """Give the tree of spans of one trace; a line of an ended span replaces that of its start."""
    spans: dict[str, SpanLine] = {}
    for line in lines:
        known = spans.get(line.span_id)
        if known is None or known.end_ns is None:
            spans[line.span_id] = line
    children: dict[str, list[SpanLine]] = {}
    tops: list[SpanLine] = []
    for span in sorted(spans.values(), key=lambda s: (s.start_ns, s.span_id)):
        if span.parent_id in spans and span.parent_id != span.span_id:
            children.setdefault(str(span.parent_id), []).append(span)
        else:
            tops.append(span)
    return TraceTree(trace_id=trace_id, roots=tuple(_branch(top, children) for top in tops))


def _branch(span: SpanLine, children: dict[str, list[SpanLine]]) -> TreeSpan:
    return TreeSpan(span, tuple(_branch(child, children) for child in children.get(span.span_id, ())))


def _render(node: TreeSpan, lead: str, branch: str) -> Iterator[str]:
    yield f"{lead}{branch}{_describe(node.span)}"
    below = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    for index, child in enumerate(node.children, start=1):
        yield from _render(child, below, "└─ " if index == len(node.children) else "├─ ")


def _describe(span: SpanLine) -> str:
    if span.end_ns is None:
        outcome = "unfinished"
    else:
        outcome = f"{(span.end_ns - span.start_ns) / 1e6:.1f} ms  {span.error_type or 'ok'}"
    kind = {"server": " <", "client": " >"}.get(span.kind, "")
    ids = "  ".join(f"{key.rpartition('.')[2]}={span.attributes[key]}" for key in KEY_IDS if key in span.attributes)
    return f"{span.name}{kind}  [{span.service}]  {outcome}" + (f"  {ids}" if ids else "")
