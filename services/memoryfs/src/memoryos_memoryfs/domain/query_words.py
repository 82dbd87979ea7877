"""What a query asks for: its words, and those of its last message where it is a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memoryos_core.search_words import query_tokens


@dataclass(frozen=True, slots=True)
class QueryWords:
    """Search tokens of a query with their counts; falsy when it has none."""

    whole: Mapping[str, int]
    last: Mapping[str, int]
    """Those of the last message; empty where there is only one."""

    def __bool__(self) -> bool:
        return bool(self.whole)


def last_message(text: str) -> str:
    """Give the last line with a word of a text that has several such lines, "" otherwise.

    Callers send a conversation as its messages, one a line (or more): what was
    said last is what is asked, the lines before say what it is about.
    """
    lines = text.splitlines()
    if len(lines) < 2:
        return ""
    spoken = (line for line in reversed(lines) if line.strip() and query_tokens(line))
    last = next(spoken, "")
    return last if next(spoken, None) is not None else ""


def query_words(text: str) -> QueryWords:
    """Give the words of a query, those of its last message apart."""
    return QueryWords(query_tokens(text), query_tokens(last_message(text)))
