"""Logs are JSON lines with the trace id, and never quote exceptions."""

from __future__ import annotations

import io
import json
import logging

import pytest
from memoryos_telemetry import current_trace_id
from memoryos_telemetry.logs import JsonFormatter, configure_logs

SECRET = "sk-live-51H8xQ"


@pytest.fixture
def log():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter("svc"))
    logger = logging.getLogger("test.logs")
    logger.addHandler(handler)
    logger.setLevel("INFO")
    logger.propagate = False
    yield logger, stream
    logger.removeHandler(handler)


def test_a_line_has_the_trace(log, telemetry):
    logger, stream = log
    with telemetry.tracer("t").span("a"):
        trace_id = current_trace_id()
        logger.info("hello %s", "世界\n\u2028", extra={"memoryos.call_id": "call_1", "n": 3})
    (raw,) = stream.getvalue().splitlines()
    line = json.loads(raw)
    assert raw.isascii()
    assert (line["message"], line["level"], line["service"]) == ("hello 世界\n\u2028", "INFO", "svc")
    assert (line["trace_id"], line["memoryos.call_id"], line["n"]) == (trace_id, "call_1", 3)


def test_outside_of_a_trace_there_is_no_id(log):
    logger, stream = log
    logger.info("x")
    assert "trace_id" not in json.loads(stream.getvalue())


def test_exceptions_are_named_and_placed_but_not_quoted(log):
    logger, stream = log
    try:
        try:
            raise ConnectionError(SECRET)
        except ConnectionError as cause:
            raise ValueError(SECRET) from cause
    except ValueError:
        logger.exception("it failed", extra={"thing": ValueError(SECRET)})
    assert SECRET not in stream.getvalue()
    line = json.loads(stream.getvalue())
    assert [link["type"] for link in line["error"]] == ["ValueError", "ConnectionError"]
    assert "test_logs.py" in line["error"][0]["frames"][0]
    assert line["thing"] == "<ValueError>"


def test_causes_that_go_round_end(log):
    logger, stream = log
    error = ValueError()
    error.__cause__ = error
    logger.error("x", exc_info=error)
    assert len(json.loads(stream.getvalue())["error"]) == 8


def test_a_second_set_up_replaces_the_first():
    root = logging.getLogger()
    before = list(root.handlers), root.level
    first, second = io.StringIO(), io.StringIO()
    try:
        configure_logs("one", "INFO", first)
        configure_logs("two", "WARNING", second)
        logging.getLogger("x").warning("once")
        logging.getLogger("x").info("not at all")
        assert first.getvalue() == ""
        assert json.loads(second.getvalue())["service"] == "two"
    finally:
        root.handlers[:], _ = before[0], root.setLevel(before[1])
