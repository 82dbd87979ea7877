"""One review on one sheet: what a person needs who has ten seconds.

Everything on it may come from an agent that was talked into something, so
nothing can be disguised: what is invisible, steers the terminal or turns the
direction of writing is shown as an escape, what is cut says how much there is
and shows its end, too, and words that mix alphabets are pointed at.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memoryos_sdk.reviews import Review
from rich.cells import cell_len

VALUE_CELLS_MAX: Final = 160
"""Columns that one value takes; a Chinese character takes two."""
TAIL_CELLS: Final = 40
"""Of these, what is kept for the end of a long one."""
ROWS_MAX: Final = 40
REASON_CELLS_MAX: Final = 400

EFFECTS: Final[Mapping[str, str]] = {
    "read": "only reads",
    "idempotent": "changes something; doing it twice is doing it once",
    "keyed": "happens once, however often it is sent",
    "non_idempotent": "happens for good: it cannot be brought back by trying again",
}
_SPACES: Final = frozenset({" ", "\u3000"})
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f")
_LOOK_ALIKE: Final = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"})


def sheet(review: Review, now: datetime, *, full: bool = False) -> list[tuple[str, str]]:
    """Give the lines of the sheet as names and texts, the most important first. `full`: nothing is cut."""
    skill = f"{review.skill} {review.skill_version}".strip()
    lines = [
        ("state", _state(review, now)),
        ("who asks", " → ".join((review.requester.user, *review.requester.agent_chain))),
        ("does", skill + (f" ({review.risk} risk)" if review.risk else "")),
        ("effect", EFFECTS.get(review.effect_class, "not known: take it for something that cannot be brought back")),
        ("to", " ".join(part for part in (review.resource_type, review.resource_id) if part)),
        *(("why you", reason) for reason in review.reasons),
        ("approvals", f"{sum(v.verdict == 'approve' for v in review.votes)} of {review.quorum} by {review.group}"),
        *(
            (vote.verdict, f"{vote.reviewer}: {vote.comment}" if vote.comment else vote.reviewer)
            for vote in review.votes
        ),
    ]
    limit = 0 if full else REASON_CELLS_MAX
    return [(name, cut(shown(text), limit)) for name, text in lines if text]


def arguments(review: Review, *, full: bool = False) -> tuple[list[tuple[str, str, str]], int]:
    """Give rows of name, value and remark, and how many more there are."""
    rows = [
        (cut(shown(name), 0 if full else VALUE_CELLS_MAX), cut(_value(value), 0 if full else VALUE_CELLS_MAX), remark)
        for name, value, remark in _leaves("", review.arguments)
    ]
    return (rows, 0) if full else (rows[:ROWS_MAX], max(0, len(rows) - ROWS_MAX))


def answers(review: Review) -> list[str]:
    """Give the commands that answer; none for who may not, or where there is nothing to answer any more."""
    if review.state != "pending" or review.arguments is None:
        return []
    return [f"mos review {verdict} {review.id} -m WHY" for verdict in ("approve", "deny")]


def relative(time: datetime | None, now: datetime) -> str:
    """Give how far a time is away: "in 14 min", "3 h ago"."""
    if time is None:
        return ""
    seconds = (time - now).total_seconds()
    count = abs(seconds)
    for unit, length, limit in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800), ("days", 86_400, 0)):
        if count < limit or not limit:
            text = f"{int(count // length)} {unit}"
            break
    return f"in {text}" if seconds >= 0 else f"{text} ago"


def shown(text: str) -> str:
    """Give a text in which nothing is invisible: escapes as in JSON, a backslash itself doubled."""
    return "".join(_escaped(char) for char in text)


def cut(text: str, cells_max: int) -> str:
    """Give a text of at most so many columns: its beginning, how long it is, and its end. 0: whole."""
    if not cells_max or cell_len(text) <= cells_max:
        return text
    tail = _within(reversed(text), TAIL_CELLS)[::-1]
    head = _within(iter(text), cells_max - TAIL_CELLS)
    return f"{head} … ({len(text):,} characters) … {tail}"


def mixed(text: str) -> str:
    """Give the first word of a text that mixes alphabets which look alike; empty without one."""
    for word in "".join(char if char.isalnum() else " " for char in text).split():
        scripts = {unicodedata.name(char, "").split(" ")[0] for char in word if char.isalpha()}
        if len(scripts & _LOOK_ALIKE) > 1:
            return word
    return ""


def _state(review: Review, now: datetime) -> str:
    if review.state != "pending":
        return f"{review.state} {relative(review.resolve_time or review.expire_time, now)}"
    left = (review.expire_time or now) - now
    hurry = " - soon" if left < timedelta(minutes=2) else ""
    return f"pending, counts as denied {relative(review.expire_time, now)}{hurry}"


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    """Give every value that holds no others, by its place: "to[0]", "order.lines[1].sku"."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and value:
        for at, inner in enumerate(value):
            yield from _leaves(f"{name}[{at}]", inner)
    elif name or not isinstance(value, dict):
        yield name, value, _remark(name, value)


def _remark(name: str, value: Any) -> str:
    remarks = []
    text = value if isinstance(value, str) else ""
    if shown(name + text) != (name + text).replace("\\", "\\\\"):
        remarks.append("has hidden characters")
    if word := mixed(name) or mixed(text):
        remarks.append(f"“{word}” mixes alphabets")
    return "; ".join(remarks)


def _value(value: Any) -> str:
    """Give a value as text; quoted where it could be taken for something else."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = shown(value)
    plain = value and value == value.strip() and value[0] not in "\"'“" and not _reads_as_json(value)
    return text if plain else f'"{text}"'


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    code = ord(char)
    category = unicodedata.category(char)
    spaced = category == "Zs" and char not in _SPACES
    if category in _HIDDEN or spaced or char in _BLANK_LETTERS or any(code in some for some in _SELECTORS):
        known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return known.get(char) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
    return char


def _within(chars: Iterator[str], cells_max: int) -> str:
    cells, kept = 0, []
    for char in chars:
        cells += cell_len(char)
        if cells > cells_max:
            break
        kept.append(char)
    return "".join(kept)


def rows_of(reviews: Sequence[Review], now: datetime | None = None) -> list[tuple[object, ...]]:
    """Give one line a review for a list."""
    now = now or datetime.now(UTC)
    return [
        (
            r.id,
            r.state,
            shown(r.skill),
            shown(r.requester.user),
            r.group,
            relative(r.expire_time, now),
            [shown(reason) for reason in r.reasons],
        )
        for r in reviews
    ]
