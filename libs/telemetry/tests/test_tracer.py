"""Spans end with a status and without texts; traceparents survive being kept."""

from __future__ import annotations

import asyncio

import pytest
from memoryos_core.clock import SystemClock
from memoryos_core.errors import NotAllowed
from memoryos_telemetry import (
    Telemetry,
    TelemetrySection,
    configure,
    continue_trace,
    current_trace_id,
    current_traceparent,
    remote_context,
    trace_id_of,
    tracer,
)
from memoryos_telemetry import telemetry as module
from memoryos_telemetry.span_lines import read_lines
from opentelemetry import trace

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03"
SECRET = "sk-live-51H8xQ"


def ended(telemetry):
    return [line for line in read_lines(telemetry.span_file.path) if line.end_ns is not None]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(SECRET), "ValueError"),
        (NotAllowed(SECRET), "NOT_ALLOWED"),
        (asyncio.CancelledError(), "CANCELLED"),
        (KeyboardInterrupt(SECRET), "KeyboardInterrupt"),
    ],
)
def test_an_exception_is_seen_but_not_quoted(telemetry, error, kind):
    with pytest.raises(type(error)), telemetry.tracer("t").span("a"):
        raise error
    (span,) = ended(telemetry)
    assert (span.failed, span.error_type) == (True, kind)
    assert SECRET not in telemetry.span_file.path.read_text()


async def test_a_cancelled_task_ends_its_span(telemetry):
    inside = asyncio.Event()

    async def work():
        with telemetry.tracer("t").span("a"):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended(telemetry)[0].error_type == "CANCELLED"


def test_traceparent_round_trip(telemetry):
    with telemetry.tracer("t").span("a"):
        kept, trace_id = current_traceparent(), current_trace_id()
    assert trace_id_of(kept) == trace_id
    assert current_traceparent() == current_trace_id() == ""
    with continue_trace(kept):
        assert current_traceparent() == kept
        with telemetry.tracer("t").span("b"):
            assert current_trace_id() == trace_id
    assert ended(telemetry)[1].parent_id == kept.split("-")[2]


def test_flags_of_others_are_kept_as_they_are():
    with continue_trace(GOOD):
        assert current_traceparent() == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        GOOD.upper(),
        GOOD + "\n",
        GOOD + "-more",
        GOOD[:-1],
        "ff" + GOOD[2:],
        GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        GOOD.replace("00f067aa0ba902b7", "0" * 16),
    ],
)
def test_malformed_traceparents_start_a_trace(telemetry, text):
    assert trace_id_of(text) == ""
    assert not trace.get_current_span(remote_context(text)).get_span_context().is_valid
    with telemetry.tracer("t").span("outer"), telemetry.tracer("t").span("new", parent=remote_context(text)):
        pass
    assert [s.parent_id for s in ended(telemetry)] == [None, None]


def test_later_versions_of_the_header_are_understood():
    assert trace_id_of("01" + GOOD[2:] + "-more") == GOOD.split("-")[1]


def test_the_tracer_of_a_library_follows_the_service_that_runs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_process_default", None)
    library = tracer("library")
    with library.span("nowhere"):
        assert current_trace_id() == ""
    first = configure(TelemetrySection(span_dir=tmp_path / "a"), "first", SystemClock())
    second = Telemetry(TelemetrySection(span_dir=tmp_path / "b"), "second", SystemClock())
    with library.span("default"):
        pass

    async def served_by_second():
        second.enter()
        with library.span("here"):
            pass

    asyncio.run(served_by_second())
    assert [s.name for s in ended(first)] == ["default"]
    assert [s.name for s in ended(second)] == ["here"]
    first.shutdown()
    second.shutdown()


def test_libraries_that_ask_opentelemetry_get_our_spans(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_process_default", None)
    telemetry = configure(TelemetrySection(span_dir=tmp_path), "svc", SystemClock())
    foreign = trace.get_tracer("somebody.else")

    def work():
        with foreign.start_as_current_span("theirs") as span:
            span.add_event(SECRET, {"x": SECRET})
            span.record_exception(ValueError(SECRET))
            span.set_status(trace.Status(trace.StatusCode.ERROR, SECRET))
            span.set_attribute("ids", ["a", 1, object])
            raise ValueError(SECRET)

    with telemetry.tracer("t").span("ours"):
        with pytest.raises(ValueError, match=SECRET):
            work()
        foreign.start_span("loose").end()
    theirs, loose, ours = ended(telemetry)
    assert (theirs.parent_id, loose.parent_id) == (ours.span_id, ours.span_id)
    assert theirs.error_type == "ValueError"
    assert theirs.attributes["ids"] == ["a", 1, "<class 'object'>"]
    assert SECRET not in telemetry.span_file.path.read_text()
    telemetry.shutdown()


def test_an_ended_span_does_not_change(telemetry):
    span = telemetry.tracer("t").start("a")
    span.end()
    first = ended(telemetry)
    span.set_attribute("late", 1)
    span.end()
    assert ended(telemetry) == first
    assert not span.is_recording()
