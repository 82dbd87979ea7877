"""The tree of one trace, from several processes."""

from __future__ import annotations

from memoryos_core.clock import SystemClock
from memoryos_telemetry import (
    Telemetry,
    TelemetrySection,
    continue_trace,
    current_trace_id,
    current_traceparent,
    trace_tree,
)
from memoryos_telemetry.span_lines import SpanLine
from memoryos_telemetry.trace_tree import build_tree


def span(span_id, parent_id, start_ns=0, end_ns=1_000_000, **more):
    return SpanLine("t", span_id, parent_id, more.pop("name", span_id), "svc", "internal", start_ns, end_ns, **more)


def test_two_services_one_tree(tmp_path):
    section = TelemetrySection(span_dir=tmp_path)
    harness, gateway = (Telemetry(section, name, SystemClock()) for name in ("harness", "tool-gateway"))
    with harness.tracer("t").span("invoke_agent demo", attributes={"memoryos.task_id": "task_1"}):
        trace_id, parent = current_trace_id(), current_traceparent()
        with continue_trace(parent), gateway.tracer("t").span("execute_tool search") as tool:
            tool.set_attribute("memoryos.call_id", "call_1")
            with gateway.tracer("t").span("inner"):
                pass
    tree = trace_tree(tmp_path, trace_id)
    assert tree.connected
    assert tree.services == {"harness", "tool-gateway"}
    first, top, tool, inner = tree.render().splitlines()
    assert first == f"trace {trace_id}  3 spans  2 services"
    assert top.startswith("invoke_agent demo  [harness]  ")
    assert top.endswith("ok  task_id=task_1")
    assert tool.startswith("└─ execute_tool search  [tool-gateway]  ")
    assert tool.endswith("call_id=call_1")
    assert inner.startswith("   └─ inner  [tool-gateway]  ")


def test_children_stand_by_their_start_and_siblings_are_drawn():
    tree = build_tree("t", [span("c", "a", 3), span("b", "a", 2), span("d", "b", 2), span("a", None, 1)])
    assert tree.render().splitlines()[1:] == [
        "a  [svc]  1.0 ms  ok",
        "├─ b  [svc]  1.0 ms  ok",
        "│  └─ d  [svc]  1.0 ms  ok",
        "└─ c  [svc]  1.0 ms  ok",
    ]


def test_an_end_replaces_a_start_in_any_order():
    for lines in ([span("a", None, end_ns=None), span("a", None)], [span("a", None), span("a", None, end_ns=None)]):
        (only,) = build_tree("t", lines).spans
        assert only.end_ns == 1_000_000


def test_a_missing_parent_is_said():
    tree = build_tree("t", [span("a", None), span("b", "lost", 1), span("c", "b", 2)])
    assert not tree.connected
    assert "NOT CONNECTED: 2 parts" in tree.render()
    assert len(tree.spans) == 3


def test_one_part_below_a_foreign_parent_is_connected():
    assert build_tree("t", [span("a", "client-of-ours"), span("b", "a")]).connected


def test_nothing_here():
    tree = build_tree("t", [])
    assert not tree.connected
    assert tree.render() == "trace t: no spans here"


def test_failures_show_their_kind():
    tree = build_tree("t", [span("a", None, failed=True, attributes={"error.type": "NOT_ALLOWED"})])
    assert "1.0 ms  NOT_ALLOWED" in tree.render()


def test_spans_that_are_each_others_parents_are_not_lost():
    tree = build_tree("t", [span("a", "b"), span("b", "a"), span("c", "c"), span("d", None)])
    assert {s.span_id for s in tree.spans} == {"a", "b", "c", "d"}
    assert not tree.connected


def test_a_long_chain_of_spans_is_no_trouble():
    lines = [span("0", None)] + [span(str(n), str(n - 1), n) for n in range(1, 5_000)]
    tree = build_tree("t", lines)
    assert tree.connected
    assert len(tree.spans) == 5_000
    assert len(tree.render().splitlines()) == 5_001
