"""Whether two short texts say the same thing, decided from their words.

Measured on pairs of our own (tests/data/restatements.jsonl), the cosine of sentence
vectors does not tell a re-statement from a text that differs in one number, name or
negation: both lie at .75 to .99. So it is a floor only, and words decide: each
mark of one text (see `claims`) has to have its match in the other, numbers, names,
negations and modal words first, and nobody may have changed sides. What is not
certain is doubt, and doubt keeps both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import combinations
from typing import Final

from memoryos_memoryfs.domain import lexicon_en, lexicon_zh
from memoryos_memoryfs.domain.claims import Claim, Mark, claim_of, fold, is_number, names_in

COSINE_MIN: Final = 0.5
"""Below it two texts with the same words speak of different things; re-statements measured lie above .6."""
CHARS_MAX: Final = 2_000
"""Longer texts are re-statements only when they are equal: in a page of words one that matters is too easily lost."""
_SYMMETRIC: Final = lexicon_en.SYMMETRIC | lexicon_zh.SYMMETRIC | {"~and", "~or"}
_PIVOT_TEXT: Final = (
    "§THAN §TO §FROM §BEFORE §AFTER §INSTEAD §NOT §EXCEPT §IF §BUT §OVER §UNDER §MORE §LESS"
    " ~to ~by ~for ~that ~who ~because ~给 ~对 ~因为 ~让 ~把 ~到 ~是"
)
_PIVOTS: Final = frozenset(_PIVOT_TEXT.split())
_PERSONS: Final = frozenset({"@self", "@we", "@you", "@he", "@she", "@they"})
_ROLES: Final = frozenset({"~to", "~for", "~with", "§FROM", "§BEFORE", "§AFTER", "§THAN", "§TO", "~给", "~对"})
_WHEN_TEXT: Final = "day week month year morning noon forenoon afternoon evening night hour minute"
_WHEN: Final = frozenset(_WHEN_TEXT.split())

_IMPLIED: Final[dict[str, frozenset[str]]] = {
    "weigh": frozenset({"kg", "g", "lb", "jin"}),
    "cost": frozenset({"usd", "eur", "gbp", "cny"}),
    "speak": frozenset({"fluent", "流利"}),
    "diet": frozenset({"vegetarian"}),
    "follow": frozenset({"vegetarian"}),
    "坐": frozenset({"座"}),
    "吃": frozenset({"过敏"}),
    "drink": frozenset({"~has"}),
    "eat": frozenset({"~has"}),
    "own": frozenset({"~has"}),
}
"""Words that may be left out where the other text has one of these."""


_UNSAID: Final = frozenset((*_PERSONS, *_IMPLIED, "n1", "§BEI"))
"""What a signature leaves out."""


class Sameness(IntEnum):
    """How two texts stand to each other."""

    SAME = 1
    DIFFERENT = 2
    DOUBT = 3


def compare(a: str, b: str, cosine: float | None = None) -> Sameness:
    """Tell whether `a` and `b` say the same thing; `cosine` is that of their vectors, when both have one.

    Symmetric. Texts that are equal but for case, width and the full stop are SAME.
    """
    if plain(a) == plain(b):
        return Sameness.SAME
    if max(len(a), len(b)) > CHARS_MAX:
        return Sameness.DOUBT
    names = names_in(a) | names_in(b)
    one, other = claim_of(a, names), claim_of(b, names)
    missing, added = _residues(one, other)
    if missing or added:
        certain = any(mark.number or mark.name or mark.key.startswith("§") for mark in (*missing, *added))
        return Sameness.DIFFERENT if certain and missing and added else Sameness.DOUBT
    if not any(_weighty(mark) for mark in one.marks) or not _same_people(one, other):
        return Sameness.DOUBT
    if _turned(one, other) or _other_negation(one, other):
        return Sameness.DIFFERENT
    if cosine is not None and cosine < COSINE_MIN:
        return Sameness.DOUBT
    return Sameness.SAME


def signature(text: str) -> str:
    """Give what texts that say the same have in common, for looking them up; equal ones still have to be compared."""
    if len(text) <= CHARS_MAX:
        keys_said = [mark[0] for mark in claim_of(text, frozenset()).marks]
        marks = Counter([key for key in keys_said if key[0] != "~" and key not in _UNSAID])
        keys = sorted(f"{key}*{count}" if _counted(key) else key for key, count in marks.items())
        if keys:
            return "\n".join(keys)
    return plain(text)


def _counted(key: str) -> bool:
    return key == "§NOT" or is_number(key)


def plain(text: str) -> str:
    """Give the text without what never changes its meaning: width, runs of spaces, case, the stop at its end."""
    folded = fold(text)
    return (folded.casefold() if not any(map(str.isdigit, folded)) else folded.lower()).rstrip(" .。!！")


def _weighty(mark: Mark) -> bool:
    return not mark.light and mark.key not in _PERSONS


def _residues(one: Claim, other: Claim) -> tuple[list[Mark], list[Mark]]:
    """Give the marks of each text that have no match in the other."""
    return _unmatched(one, other), _unmatched(other, one)


def _unmatched(claim: Claim, other: Claim) -> list[Mark]:
    there = Counter(mark.key for mark in other.marks)
    unmatched = []
    for mark in claim.marks:
        if not _weighty(mark) or mark.key in ("n1", "§BEI"):
            continue
        key = mark.key
        if any(m.key in _IMPLIED.get(key, ()) for m in other.marks):
            continue
        exact = _counted(key)
        if there[key] <= 0:
            unmatched.append(mark)
        elif exact:
            there[key] -= 1
    return unmatched


def _same_people(one: Claim, other: Claim) -> bool:
    """Tell whether no pronoun stands for somebody else; who is left out in one text is the one of the other."""
    here = {mark.key for mark in one.marks} & _PERSONS
    there = {mark.key for mark in other.marks} & _PERSONS
    return not (here - there and there - here)


def _turned(one: Claim, other: Claim) -> bool:
    """Tell whether somebody or something has changed sides: A pays B and B pays A, from A to B and from B to A."""
    first, second = _places(one.marks), _places(other.marks)
    shared = sorted(set(first) & set(second), key=first.__getitem__)
    if bool(one.agents) != bool(other.agents):
        passive, active = (one, other) if one.agents else (other, one)
        return _agent_moved(passive, active)
    for at, pivot in enumerate(shared):
        if pivot in _SYMMETRIC or not _may_turn(pivot):
            continue
        before = [key for key in shared[:at] if second[key] > second[pivot] and _side(key)]
        after = [key for key in shared[at + 1 :] if second[key] < second[pivot] and _side(key)]
        if before and after and not (pivot in ("~是",) and _owners(one) == _owners(other)):
            return True
    return _names_swapped(one, other)


def _places(marks: Sequence[Mark]) -> dict[str, int]:
    """Give the first place of each mark."""
    places: dict[str, int] = {}
    for at, mark in enumerate(marks):
        places.setdefault(mark.key, at)
    return places


def _may_turn(key: str) -> bool:
    return key in _PIVOTS or _side(key)


def _side(key: str) -> bool:
    """Tell whether a mark can be one of two sides: neither a modal word nor a time, which stand anywhere."""
    return not key.startswith(("§", "~", "d", "w", "t", "y", "m")) or (
        not key.startswith(("§", "~")) and key not in _WHEN and not Mark(key, 0).number
    )


def _agent_moved(passive: Claim, active: Claim) -> bool:
    """Tell whether who acts in the passive text is acted upon in the active one."""
    there = _places(active.marks)
    for at in passive.agents:
        clause = passive.marks[at].clause
        patients = [m for m in passive.marks[:at] if m.clause == clause and _side(m.key)]
        if not patients or patients[0].key not in there or passive.marks[at].key not in there:
            continue
        start, end = there[patients[0].key], there[passive.marks[at].key]
        verbs = {m.key for m in passive.marks if _side(m.key)} - {patients[0].key, passive.marks[at].key}
        if any(start < there.get(verb, -1) < end for verb in verbs):
            return True
    return False


def _names_swapped(one: Claim, other: Claim) -> bool:
    """Tell whether two names have changed places without a word that lets them."""
    first, second = _places(one.marks), _places(other.marks)
    sure = {mark.key for claim in (one, other) for mark in claim.marks if mark.name} | _PERSONS
    named = [key for key in first if key in second and key in sure]
    for a, b in combinations(named, 2):
        if (first[a] < first[b]) == (second[a] < second[b]):
            continue
        if _joined(one, first[a], first[b]) and _joined(other, second[a], second[b]):
            continue
        if any(_role(one, first[key]) and _role(one, first[key]) == _role(other, second[key]) for key in (a, b)):
            continue
        if _owners(one) and _owners(one) == _owners(other):
            continue
        return True
    return False


def _joined(claim: Claim, a: int, b: int) -> bool:
    between = claim.marks[min(a, b) + 1 : max(a, b)]
    return bool(between) and any(mark.key in _SYMMETRIC for mark in between)


def _role(claim: Claim, at: int) -> str:
    before = claim.marks[at - 1].key if at else ""
    return before if before in _ROLES else ""


def _owners(claim: Claim) -> frozenset[str]:
    """Give who stands in the genitive."""
    marks = claim.marks
    chinese = {marks[n - 1].key for n, mark in enumerate(marks) if n and mark.key == "~的"}
    return frozenset({mark.key for mark in marks if mark.owner} | chinese)


def _other_negation(one: Claim, other: Claim) -> bool:
    """Tell whether a negation stands in another clause: not A but B, and not B but A."""
    here, there = _negated(one.marks), _negated(other.marks)
    several = max((mark.clause for mark in (*one.marks, *other.marks)), default=0) > 0
    return bool(here or there) and several and here != there


def _negated(marks: Iterable[Mark]) -> frozenset[str]:
    rows = list(marks)
    clauses = {mark.clause for mark in rows if mark.key == "§NOT"}
    return frozenset(mark.key for mark in rows if mark.clause in clauses and _side(mark.key))
