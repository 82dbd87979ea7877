"""A text as a row of marks that can be compared: numbers, names, words by their meaning, and who stands where.

English words are grouped by `lexicon_en` or stemmed; Chinese words are grouped by
`lexicon_zh` (longest match), else taken character by character, so that no dictionary
decides where an unknown name ends. Any other script has to agree character by character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import Stemmer

from memoryos_memoryfs.domain import lexicon_en, lexicon_zh, numerals
from memoryos_memoryfs.domain.numerals import HAN_NUMBER, NUMBER_WORDS, ORDINALS, english_number, forms_at, han_number

_NUMBER_KEY: Final = re.compile(r"[ndmywt#]-?\d")
_NUMBER_STARTS: Final = frozenset("ndmywt#")
_IDENTIFIER: Final = re.compile(
    r"[A-Za-z0-9]+(?:[-_./:@#+][A-Za-z0-9]+)+|[A-Za-z]+\d[A-Za-z0-9]*|\d+[A-Za-z]+\d[A-Za-z0-9]*"
)
_WORD: Final = re.compile(r"[^\W\d_\u3400-\u9fff\u3040-\u30ff\u0e00-\u0eff]+(?:['’-][^\W\d_\u3400-\u9fff]+)*[+#]*")
_NAMING: Final = re.compile(r"[\d@_]")
_LETTERS: Final = re.compile(r"[A-Za-z']+")
_HAN_NUMBER: Final = re.compile(HAN_NUMBER)
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_CLAUSES: Final = frozenset(",;.!，；。！:：")
_STEMMER: Final = Stemmer.Stemmer("english")
_BE: Final = frozenset({"is", "are", "was", "were", "be", "been", "being", "got", "gets"})
_PERFECT: Final = frozenset({"has", "have", "having"})
_BEFORE_ADJECTIVE: Final = frozenset({"a", "an", "the", "my", "his", "her", "our", "their", "your", "very", "quite"})
_OR: Final = re.compile(r"(?<=favo)ur|(?<=colo)ur|(?<=hono)ur|(?<=labo)ur|(?<=behavio)ur|(?<=neighbo)ur|(?<=flavo)ur")


class Mark(NamedTuple):
    """One step of a text: `key` says what it means, `~…` has no weight of its own."""

    key: str
    clause: int
    name: bool = False
    """Certainly a proper name or identifier."""
    owner: bool = False
    """Stands in the genitive: Tom's, 小林的."""

    @property
    def number(self) -> bool:
        """Tell whether it is a number, date or time."""
        return is_number(self.key)

    @property
    def light(self) -> bool:
        """Tell whether a statement stays the same without it."""
        return self.key.startswith("~")


def is_number(key: str) -> bool:
    """Tell whether the key of a mark is a number, date or time."""
    return key[:1] in _NUMBER_STARTS and _NUMBER_KEY.match(key) is not None


@dataclass(frozen=True, slots=True)
class Claim:
    """What a text says."""

    marks: tuple[Mark, ...]
    agents: tuple[int, ...]
    """Places of marks that name who acts in the passive: what follows `by` or 被."""


class _Word:
    """An English word before its meaning is looked up."""

    __slots__ = ("clause", "first", "lower", "text")

    def __init__(self, text: str, first: bool, clause: int) -> None:
        self.text = text
        self.first = first
        self.clause = clause
        lower = text.lower()
        self.lower = _OR.sub("r", lower) if "our" in lower else lower


_Raw = _Word | Mark


def names_in(text: str) -> frozenset[str]:
    """Give the words, in lower case, that are certainly names: capitals inside a sentence, or capitals throughout."""
    return frozenset(
        raw.lower.removesuffix("'s")
        for raw in _scan(fold(text))
        if isinstance(raw, _Word) and raw.text[0].isupper() and raw.text.split("'")[0] != "I" and not raw.first
    )


def fold(text: str) -> str:
    """Give the text in NFKC, with plain quotes and single spaces."""
    if text.isascii():
        return " ".join(text.split())
    text = unicodedata.normalize("NFKC", text).replace("’", "'").replace("‘", "'")
    return " ".join("".join(char for char in text if unicodedata.category(char) not in ("Cf", "Co")).split())


def claim_of(text: str, names: frozenset[str]) -> Claim:
    """Give what `text` says; `names` are the names of both texts that are compared."""
    folded = fold(text)
    marks: list[Mark] = []
    row: list[_Word] = []
    for raw in _scan(folded):
        if isinstance(raw, _Word):
            row.append(raw)
            continue
        if row:
            marks += _english(row, names)
            row = []
        marks.append(raw)
    marks += _english(row, names)
    marks = [mark for mark in marks if mark.key]
    marks += _tense(folded, marks)
    if folded.rstrip().endswith("?") or "吗" in folded:
        marks.append(Mark("§QUESTION", 0))
    return Claim(tuple(marks), tuple(_agents(folded, marks)))


def _scan(text: str) -> Iterator[_Raw]:
    """Give numbers and Chinese marks as they are, English words one by one."""
    at, clause, first = 0, 0, True
    while at < len(text):
        char = text[at]
        if char == " ":
            first, at = False, at + 1
            continue
        if char in _CLAUSES:
            clause, first = clause + 1, char in ".!。！"
            at += 1
            continue
        forms = forms_at(text, at)
        found, keys = _form(text, at, forms) if forms else (at, ())
        if keys:
            yield from (Mark(key, clause) for key in keys)
        elif match := _IDENTIFIER.match(text, at):
            if _NAMING.search(match[0]):
                found = match.end()
                yield Mark(match[0].lower(), clause, name=True)
            elif word := _WORD.match(text, at):
                found = word.end()
                yield _Word(word[0], first, clause)
        elif word := _WORD.match(text, at):
            found = word.end()
            yield _Word(word[0], first, clause)
        elif _HAN.match(char):
            keys, found = _han(text, at)
            yield from (Mark(key, clause) for key in keys)
        elif char.isalnum() or unicodedata.category(char)[0] in "LMN" or char in "+#%":
            yield Mark(char, clause)
            found = at + 1
        first = first and found == at + 1 and char in " \"'("
        at = max(found, at + 1)


def _form(text: str, at: int, forms: numerals.Forms) -> tuple[int, Sequence[str]]:
    """Give the number, date or time that starts here, if any of `forms` does, and where it ends."""
    if at and text[at - 1].isascii() and text[at - 1].isalnum():
        return at, ()
    long_word = _han_word(text, at)
    for form, make in forms:
        match = form.match(text, at)
        if match and match.end() - at > len(long_word) - (long_word[:1] in "一两"):
            return match.end(), make(match)
    return at, ()


def _han_word(text: str, at: int) -> str:
    for size in range(min(lexicon_zh.WORD_CHARS_MAX, len(text) - at), 0, -1):
        if text[at : at + size] in lexicon_zh.WORDS:
            return text[at : at + size]
    return ""


def _han(text: str, at: int) -> tuple[list[str], int]:
    """Give the keys of the Chinese word that starts here (a number, a known word, else one character), and its end."""
    word = _han_word(text, at)
    number = _HAN_NUMBER.match(text, at)
    if number and number.end() - at >= max(len(word), 1):
        return [f"n{han_number(number[0])}"], number.end()
    if text[at : at + 1] == "的" and at:
        return ["~的"], at + 1
    if len(word) == 1 and word in lexicon_zh.MEASURES and not _counted(text, at):
        return [word], at + 1
    if word:
        return list(lexicon_zh.WORDS[word]), at + len(word)
    return [text[at]], at + 1


def _counted(text: str, at: int) -> bool:
    """Tell whether a number or 这, 那, 每 stands before: then the character is a measure word, else part of a name."""
    return at > 0 and (text[at - 1].isdigit() or text[at - 1] in "一二两三四五六七八九十百千万亿这那每几半")


def _english(row: list[_Word], names: frozenset[str]) -> list[Mark]:
    """Give the marks of neighbouring English words, longest phrases first."""
    marks: list[Mark] = []
    words = [part for word in row for part in _split(word)]
    at = 0
    while at < len(words):
        word = words[at]
        name = word.lower.removesuffix("'s") in names and word.text[0].isupper()
        if name:
            bare = word.lower.removesuffix("'s")
            marks.append(Mark(bare, word.clause, name=True, owner=bare != word.lower))
            at += 1
            continue
        value, used = english_number([w.lower for w in words[at : at + 8]]) if word.lower in NUMBER_WORDS else (0, 0)
        if used and not (used == 1 and word.lower == "one" and _follows_no(words, at)):
            marks.append(Mark(f"n{value}", word.clause))
            at += used
            continue
        keys, used = _phrase(words, at)
        marks += [Mark(key, word.clause, owner=word.lower.endswith("'s")) for key in keys]
        at += used
    return marks


def _follows_no(words: list[_Word], at: int) -> bool:
    return at > 0 and words[at - 1].lower in ("no", "the", "this", "that")


def _split(word: _Word) -> list[_Word]:
    """Give a contraction or compound in its parts."""
    lower = word.lower
    if (lower,) in lexicon_en.PHRASES:
        return [word]
    if lower.endswith("n't"):
        return [_Word(lower[:-3], word.first, word.clause), _Word("n't", False, word.clause)]
    for ending, meaning in (("'ll", "'ll"), ("'d", "'d"), ("'ve", "have"), ("'re", "are"), ("'m", "am")):
        if lower.endswith(ending):
            return [_Word(word.text[: -len(ending)], word.first, word.clause), _Word(meaning, False, word.clause)]
    if "-" in word.text:
        return [_Word(part, word.first, word.clause) for part in word.text.split("-") if part]
    return [word]


def _phrase(words: list[_Word], at: int) -> tuple[list[str], int]:
    """Give the keys of the longest known phrase that starts here, else of the word, and how many words that is."""
    longest = lexicon_en.LONGEST.get(words[at].lower, 0)
    for size in range(min(longest, len(words) - at), 0, -1):
        phrase = tuple(word.lower for word in words[at : at + size])
        found = lexicon_en.PHRASES.get(phrase)
        if found is not None:
            return list(found), size
    lower = words[at].lower
    if lower.endswith("'s") or lower.endswith("s'"):
        base = lower[:-2]
        known = lexicon_en.PHRASES.get((base,))
        return (list(known) if known is not None else [base]), 1
    if lower in ORDINALS:
        return [ORDINALS[lower]], 1
    base = lexicon_en.IRREGULAR.get(lower, lower)
    known = lexicon_en.PHRASES.get((base,))
    return (list(known) if known else [str(_STEMMER.stemWord(base))]), 1


def _tense(text: str, marks: list[Mark]) -> list[Mark]:
    """Give the mark of the past for an English text in it, unless another mark says how it stands to the present."""
    if any(mark.key in ("§FORMER", "§ENDED") for mark in marks):
        return []
    before = ""
    for word in _LETTERS.findall(text):
        lower = word.lower()
        if lower == "been":
            return [Mark("§PAST", 0)]
        if lower in lexicon_en.PAST or (
            lower.endswith("ed") and lower not in lexicon_en.NOT_PAST and (len(lower) > 4 and word.islower())
        ):
            shielded = before in _BE or before in _BEFORE_ADJECTIVE
            if before in _PERFECT or lower in ("was", "were", "had") or not shielded:
                return [Mark("§PAST", 0)]
        before = lower
    return []


def _agents(text: str, marks: list[Mark]) -> Iterator[int]:
    """Give the places of those who act in a passive clause."""
    passive = set()
    for at, mark in enumerate(marks):
        if mark.key == "§BEI" or (mark.key == "~by" and _passive(text)):
            passive.add(at)
    for at in sorted(passive):
        after = next((n for n in range(at + 1, len(marks)) if not marks[n].light), None)
        if after is not None and not marks[after].number:
            yield after


def _passive(text: str) -> bool:
    return (
        re.search(r"\b(?:is|are|was|were|be|been|being|got)\b(?:\W+\w+){1,4}?\W+by\b", text, re.IGNORECASE) is not None
    )
