"""What reaches the terminal and what reaches programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from memoryos_cli.exits import BY_CODE, CliError, Exit, of_call_error
from memoryos_cli.output import Output, plain, printable, short
from memoryos_sdk import CallError, InvalidArgument, NotFound, ResourceExhausted, Unavailable
from memoryos_sdk.errors import ErrorDetails


@dataclass(frozen=True)
class Thing:
    name: str
    when: datetime
    took: timedelta
    parts: tuple[str, ...]


def test_json_is_one_value_in_plain_types(capsys: pytest.CaptureFixture[str]) -> None:
    thing = Thing("客户", datetime(2025, 7, 1, tzinfo=UTC), timedelta(seconds=1.5), ("a", "b"))
    Output(as_json=True).value([thing])
    out = capsys.readouterr().out
    assert json.loads(out) == [{"name": "客户", "when": "2025-07-01T00:00:00Z", "took": 1.5, "parts": ["a", "b"]}]
    assert "客户" in out
    assert plain({1: {"x"}}) == {"1": ["x"]}


def test_with_json_nothing_else_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    output.line("for people")
    output.error(CliError("no", hint="do so", exit_code=Exit.NOT_FOUND, reason="ITEM_NOT_FOUND"))
    captured = capsys.readouterr()
    assert captured.out == ""
    told = {"message": "no", "reason": "ITEM_NOT_FOUND", "hint": "do so", "exit_code": 3}
    assert json.loads(captured.err) == {"error": told}


def test_text_of_others_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[2J\x07\x9b1m\u202eb\ud800[bold]c[/bold] :smile:\r\nd\te"
    assert printable(hostile) == "a\\u001b[2J\\u0007\\u009b1m\\u202eb\\ud800[bold]c[/bold] :smile:\\u000d\nd\te"
    output = Output(as_json=False)
    output.line(hostile)
    output.table(["x", "y"], [(hostile, hostile)])
    output.fields([("name", hostile)])
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out)
    assert out.count("[bold]c[/bold]") == 4


def test_long_lines_stay_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).line("x" * 1000)
    assert capsys.readouterr().out == "x" * 1000 + "\n"


def test_short_cuts_to_one_line() -> None:
    assert short("a\n b\tc") == "a b c"
    assert short("客" * 100, 10) == "客" * 9 + "…"


@pytest.mark.parametrize(
    ("error", "exit_code", "message", "hint"),
    [
        (InvalidArgument.of("meta.time", "is no date"), Exit.USAGE, "meta.time: is no date", ""),
        (NotFound("No such item.", ErrorDetails(reason="ITEM_NOT_FOUND")), Exit.NOT_FOUND, "No such item.", "yours"),
        (Unavailable("failed to connect"), Exit.NOT_RUNNING, "the service does not answer", "mos status"),
        (ResourceExhausted("busy", ErrorDetails(retry_after_s=1.5)), Exit.LIMIT, "busy", "again in 1.5 s"),
        (CallError("odd"), Exit.FAULT, "odd", ""),
    ],
)
def test_each_kind_of_error_has_its_exit_code_and_advice(
    error: CallError, exit_code: Exit, message: str, hint: str
) -> None:
    told = of_call_error(error)
    assert (told.exit_code, told.message) == (exit_code, message)
    assert hint in told.hint


def test_exit_codes_are_those_of_the_help() -> None:
    assert sorted(set(BY_CODE.values()) | {Exit.DONE, Exit.FAULT, Exit.OTHERWISE}) == list(range(10))
