"""The span file: always there, bounded, whole lines, readable after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from memoryos_core.clock import SystemClock
from memoryos_telemetry import (
    Telemetry,
    TelemetrySection,
    continue_trace,
    current_trace_id,
    current_traceparent,
    trace_tree,
)
from memoryos_telemetry.span_file import WAITING_MAX, SpanFile, span_files
from memoryos_telemetry.span_lines import LINE_BYTES_MAX, read_lines

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def all_lines(folder):
    return [line for path in span_files(folder) for line in read_lines(path)]


def test_a_root_that_ends_is_there_at_once_with_all_below_it(telemetry):
    folder = telemetry.span_file.path.parent
    with telemetry.tracer("t").span("a", attributes={"memoryos.task_id": "task_1"}), telemetry.tracer("t").span("b"):
        pass
    inner, outer = all_lines(folder)
    assert (inner.name, outer.name, outer.service, inner.parent_id) == ("b", "a", "svc", outer.span_id)
    assert outer.end_ns >= outer.start_ns
    assert outer.attributes == {"memoryos.task_id": "task_1"}
    assert os.stat(telemetry.span_file.path).st_mode & 0o077 == 0


def test_who_gets_a_traceparent_finds_its_span(telemetry):
    """Rows and other processes refer to it: it must be there before they do, whatever happens then."""
    folder = telemetry.span_file.path.parent
    with telemetry.tracer("t").span("a"), telemetry.tracer("t").span("b"):
        kept = current_traceparent()
        assert [(line.name, line.end_ns) for line in all_lines(folder)] == [("a", None), ("b", None)]
        assert all_lines(folder)[1].span_id == kept.split("-")[2]
        current_traceparent()
        assert len(all_lines(folder)) == 2
    assert len(all_lines(folder)) == 4


def test_running_spans_are_shown_soon(telemetry):
    folder = telemetry.span_file.path.parent
    with telemetry.tracer("t").span("long"):
        deadline = time.monotonic() + 10
        while not all_lines(folder) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [line.end_ns for line in all_lines(folder)] == [None]


def test_what_waits_is_bounded(telemetry):
    spans = [telemetry.tracer("t").start(f"s{n}") for n in range(3 * WAITING_MAX)]
    assert len(telemetry.span_file._running) <= WAITING_MAX
    for span in spans:
        span.end()
        span.end()
    assert len([line for line in all_lines(telemetry.span_file.path.parent) if line.end_ns]) == 3 * WAITING_MAX


def test_hostile_names_stay_on_their_line(telemetry):
    folder = telemetry.span_file.path.parent
    name = 'a"b\n{"trace_id":1}\u2028\u0085\x00\ud800😀'
    with telemetry.tracer("t").span(name, attributes={"k": "x\ny\u2028", "nan": float("nan")}):
        pass
    raw = telemetry.span_file.path.read_bytes()
    assert raw.isascii()
    assert raw.count(b"\n") == len(raw.decode().splitlines()) == 1
    assert all_lines(folder)[0].name == name


def test_attributes_are_bounded(telemetry):
    folder = telemetry.span_file.path.parent
    with telemetry.tracer("t").span("a") as span:
        for number in range(200):
            span.set_attribute(f"k{number}", "x" * 10_000)
    attributes = all_lines(folder)[0].attributes
    assert len(attributes) == 64
    assert {len(value) for value in attributes.values()} == {256}


def test_a_torn_or_foreign_line_is_skipped(telemetry):
    folder = telemetry.span_file.path.parent
    with telemetry.tracer("t").span("a"):
        pass
    whole = telemetry.span_file.path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for number, tail in enumerate(
        (last[:-1], last[:50], b"\xff\xfe", b"[]\n", b"{}\n", b"null\n", b"9" * (3 * LINE_BYTES_MAX) + b"\n" + last)
    ):
        (folder / f"old-{number}.jsonl").write_bytes(whole + tail)
    for path in folder.glob("old-*.jsonl"):
        assert [line.name for line in read_lines(path)][:1] == ["a"]
        assert {line.name for line in read_lines(path)} == {"a"}
    assert list(read_lines(folder / "gone.jsonl")) == []


def test_the_size_is_bounded_and_the_newest_stay(tmp_path):
    section = TelemetrySection(span_dir=tmp_path, span_file_bytes_max=64 * 1024)
    telemetry = Telemetry(section, "svc", SystemClock())
    tracer = telemetry.tracer("t")
    for number in range(2_000):
        with tracer.span(f"span {number}"):
            pass
    files = span_files(tmp_path)
    assert len(files) == 2
    assert sum(path.stat().st_size for path in files) <= 64 * 1024
    names = {line.name for line in all_lines(tmp_path)}
    assert "span 1999" in names
    assert "span 0" not in names
    assert telemetry.span_file.dropped == 0


def test_old_files_of_ended_processes_go(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for number in range(10):
        path = tmp_path / f"svc-old{number}-{ended.pid}.jsonl"
        path.write_text("")
        os.utime(path, (number, number))
    mine = tmp_path / f"other-x-{os.getpid()}.jsonl"
    mine.write_text("")
    os.utime(mine, (0, 0))
    SpanFile(tmp_path, "svc", NOW, bytes_max=2**20, files_max=3).close()
    left = {path.name for path in span_files(tmp_path)}
    assert mine.name in left
    assert {name for name in left if "old" in name} == {f"svc-old{n}-{ended.pid}.jsonl" for n in (7, 8, 9)}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_costs_spans_not_calls(telemetry):
    full = os.open("/dev/full", os.O_WRONLY)
    telemetry.span_file._fd, kept = full, telemetry.span_file._fd
    with telemetry.tracer("t").span("lost"):
        pass
    assert telemetry.span_file.dropped == 1
    telemetry.span_file._fd = kept
    os.close(full)
    with telemetry.tracer("t").span("kept"):
        pass
    assert {line.name for line in all_lines(telemetry.span_file.path.parent)} == {"kept"}


def test_a_short_write_costs_its_own_line_only(telemetry):
    file = telemetry.span_file
    os.write(file._fd, b'{"trace_id":"4bf92')  # what a short write leaves behind
    file._torn = True
    for name in ("next", "after"):
        with telemetry.tracer("t").span(name):
            pass
    assert [line.name for line in all_lines(file.path.parent)] == ["next", "after"]


def test_after_shutdown_spans_are_dropped(telemetry):
    telemetry.shutdown()
    with telemetry.tracer("t").span("late"):
        pass
    assert all_lines(telemetry.span_file.path.parent) == []


KILLED = """
import os, pathlib, signal, sys
from memoryos_core.clock import SystemClock
from memoryos_telemetry import TelemetrySection, configure, continue_trace, current_traceparent, tracer
configure(TelemetrySection(span_dir=pathlib.Path(sys.argv[1])), "worker", SystemClock())
with continue_trace(sys.argv[2]), tracer("t").span("outer"):
    with tracer("t").span("done"):
        pass
    with tracer("t").span("open"):
        print(current_traceparent(), flush=True)  # as a call to another service would
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_its_spans_and_the_tree_connected(telemetry):
    """I9 under kill -9: what others refer to is kept; what was open is shown as unfinished."""
    folder = telemetry.span_file.path.parent
    with telemetry.tracer("t").span("submit"):
        parent, trace_id = current_traceparent(), current_trace_id()
    for _ in range(2):
        command = [sys.executable, "-c", KILLED, str(folder), parent]
        died = subprocess.run(command, check=False, capture_output=True, text=True)
        assert died.returncode == -signal.SIGKILL
        with continue_trace(died.stdout.strip()), telemetry.tracer("t").span("callee"):
            pass
    tree = trace_tree(folder, trace_id)
    assert tree.connected
    names = [(span.name, span.end_ns is None) for span in tree.spans]
    assert names == [("submit", False)] + [("outer", True), ("done", False), ("open", True), ("callee", False)] * 2
    assert tree.render().count("unfinished") == 4


def test_lines_are_json_for_everybody(telemetry):
    with telemetry.tracer("t").span("a"):
        pass
    for line in telemetry.span_file.path.read_text().splitlines():
        assert json.loads(line)["service"] == "svc"
