"""Rules between arguments that JSON Schema cannot say: order, span, and values listed in a file.

They are asked once the schema holds, so that types are known. An absent
argument breaks no rule: `required` is the schema's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import Any, Final, Protocol

from memoryos_core.canonical import JsonValue

from memoryos_toolgateway.domain import pointers

VALUES_MAX: Final = 100_000
_SECONDS_PER_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: where, which keyword, and what would be right; never the value."""

    pointer: str
    rule: str
    expectation: str


class Rule(Protocol):
    """One rule of a skill."""

    def violations(self, arguments: JsonValue) -> Iterator[Violation]:
        """Give where the arguments break it."""


@dataclass(frozen=True, slots=True)
class Order:
    """Each argument is not after (not more than) the next that is there; `strict`: before (less)."""

    pointers: tuple[str, ...]
    strict: bool

    def violations(self, arguments: JsonValue) -> Iterator[Violation]:
        """See Rule."""
        word = "before (less than)" if self.strict else "not after (at most)"
        there = [(p, key) for p in self.pointers if (key := _comparable(pointers.find(arguments, p))) is not None]
        for (one, first), (other, second) in pairwise(there):
            if not _same_kind(first, second):
                yield Violation(one, "order", f"a value that can be compared with {other}")
            elif first > second or (self.strict and first == second):
                yield Violation(one, "order", f"{word} {other}")


@dataclass(frozen=True, slots=True)
class Span:
    """From one argument to another it is at most so far: days between dates, a difference between numbers."""

    start: str
    end: str
    most: float

    def violations(self, arguments: JsonValue) -> Iterator[Violation]:
        """See Rule."""
        first, last = (_comparable(pointers.find(arguments, p)) for p in (self.start, self.end))
        if first is None or last is None:
            return
        if not _same_kind(first, last):
            yield Violation(self.end, "span", f"a value that can be compared with {self.start}")
        elif _distance(first, last) > self.most:
            unit = "" if isinstance(first, int | float) else " days"
            yield Violation(self.end, "span", f"at most {self.most:g}{unit} from {self.start}")


@dataclass(frozen=True, slots=True)
class Listed:
    """Every value that the pointer leads to ("*": each element) is in the skill's file of values."""

    pointer: str
    file: str
    values: frozenset[str | int | float]

    def violations(self, arguments: JsonValue) -> Iterator[Violation]:
        """See Rule."""
        found = list(pointers.find_all(arguments, self.pointer))
        if any(
            isinstance(value, bool) or not isinstance(value, str | int | float) or value not in self.values
            for value in found
        ):
            yield Violation(self.pointer, "values", f"one of the {len(self.values)} values in {self.file}")


def rule_violations(rules: Sequence[Rule], arguments: JsonValue) -> list[Violation]:
    """Give where the arguments break the rules."""
    return [violation for rule in rules for violation in rule.violations(arguments)]


def _comparable(value: object) -> Any:
    """Give what orders a value: a number, a moment (dates at midnight UTC), a time of day; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    for read in (_moment, time.fromisoformat):
        try:
            return read(value)
        except ValueError:
            continue
    return None


def _moment(text: str) -> datetime:
    if len(text) == len("2026-01-01"):
        day = date.fromisoformat(text)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _same_kind(one: Any, other: Any) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if isinstance(one, time) and isinstance(other, time):
        return (one.tzinfo is None) == (other.tzinfo is None)
    return numbers or type(one) is type(other)


def _distance(first: Any, last: Any) -> float:
    if isinstance(first, datetime):
        return float((last - first).total_seconds()) / _SECONDS_PER_DAY
    if isinstance(first, time):
        seconds = [t.hour * 3600 + t.minute * 60 + t.second for t in (first, last)]
        return (seconds[1] - seconds[0]) / _SECONDS_PER_DAY
    return float(last - first)
