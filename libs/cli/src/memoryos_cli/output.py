"""What people and programs see: text for a terminal, or with --json one JSON value on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memoryos_cli.exits import CliError

PIPE_WIDTH: Final = 400


def plain(value: Any) -> Any:
    """Give a value as JSON has it: times in RFC 3339, durations in seconds."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    return value


class Output:
    """Where a command says what it found. Content is printed as text, never as markup."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        # A pipe has no width: lines and tables are as wide as they need to be.
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        self._out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)
        self._err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def value(self, value: Any) -> None:
        """Print one JSON value (with --json, or where the value is JSON anyway)."""
        text = json.dumps(plain(value), ensure_ascii=False, indent=2 if self._out.is_terminal else None)
        self._out.file.write(printable(text) + "\n")

    def json_line(self, value: Any) -> None:
        """Print one JSON value on one line, whatever was asked for: commands that stream give a line each."""
        self._out.file.write(printable(json.dumps(plain(value), ensure_ascii=False)) + "\n")
        self._out.file.flush()

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line for people; nothing with --json."""
        if not self.as_json:
            self._out.print(Text(printable(text), style=style))

    @contextmanager
    def progress(self, text: str) -> Iterator[Callable[[str], None]]:
        """Give a function that says what is under way, on a line of its own below; without a screen it says nothing."""
        if self.as_json or not self._out.is_terminal:
            yield lambda _text: None
            return
        with self._out.status(Text(printable(text), style="dim")) as status:
            yield lambda now: status.update(Text(printable(now), style="dim"))

    def note(self, text: str) -> None:
        """Print a line beside the result, on standard error."""
        self._err.print(Text(printable(text), style="dim"))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "nothing") -> None:
        """Print rows under headings, the last column folded into the width that is left."""
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for index, column in enumerate(columns):
            table.add_column(column, no_wrap=index < len(columns) - 1, overflow="fold")
        count = 0
        for count, row in enumerate(rows, start=1):  # noqa: B007 - counted for the line below
            table.add_row(*(Text(printable(_cell(cell))) for cell in row))
        if count:
            self._out.print(table, soft_wrap=False)
        else:
            self.line(empty, style="dim")

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print names and values under each other, leaving out what is empty."""
        shown = [(name, _cell(value)) for name, value in pairs if value not in (None, "", (), [], {})]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self._out.print(Text(f"{name:<{width}}  ", style="dim").append(printable(value), style="not dim"))

    def error(self, error: CliError) -> None:
        """Print what went wrong in one line, and what to do in another."""
        if self.as_json:
            described = {
                "message": error.message,
                "reason": error.reason,
                "hint": error.hint,
                "exit_code": error.exit_code,
            }
            self._err.file.write(json.dumps({"error": described}, ensure_ascii=False) + "\n")
            return
        reason = f" ({error.reason})" if error.reason else ""
        self._err.print(
            Text("error: ", style="bold red").append(printable(error.message) + reason, style="not bold default")
        )
        if error.hint:
            self._err.print(Text(f"       {printable(error.hint)}", style="dim"))


def printable(text: str) -> str:
    """Give text that cannot steer a terminal and can be written in UTF-8.

    Control characters but line feed and tab, and direction marks, become
    visible escapes: remembered text may come from anybody.
    """
    return "".join(char if _harmless(char) else f"\\u{ord(char):04x}" for char in text)


def _harmless(char: str) -> bool:
    code = ord(char)
    if code < 0x20:
        return char in "\n\t"
    return not (
        0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
    )


def moment(value: datetime | None) -> str:
    """Give a time in the machine's zone, to the second."""
    return "" if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def short(text: str, length: int = 80) -> str:
    """Give the first line of a text, cut with an ellipsis."""
    first = " ".join(text.split())
    return first if len(first) <= length else first[: length - 1] + "…"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".") or "0"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_cell(inner) for inner in value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
