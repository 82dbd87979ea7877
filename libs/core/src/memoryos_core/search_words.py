"""Search tokens of a text, for search by words: those of what is kept and of what is asked are made alike.

- Folding: NFKC and case folding; accents of Latin, Greek and Cyrillic letters
  are dropped. Full-width letters, half-width kana and `é` in either spelling
  all meet.
- English words are stemmed (Snowball); stop words are dropped unless the text
  has nothing else.
- Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese have no dictionary
  here: a run of such characters gives its pairs, a single one gives itself.
- Identifiers (`WR-1024`, `mem_01J…`, `10.4/7-B`, `a@b.example`) are kept whole
  as well as in parts, so each can be found exactly.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from typing import Final

import Stemmer

CHARS_MAX: Final = 100_000
"""Characters read of a text: an item of memory is at most 100 kB."""
DISTINCT_MAX: Final = 65_536
"""Distinct tokens kept of a text; more than 100 kB of words have, so that the end of a large text is found too."""
QUERY_DISTINCT_MAX: Final = 256
"""Distinct tokens of a query. With the 8 rarest, long questions lose .03 R@5; beyond 64 nothing is gained."""
_CACHED_CHARS_MAX: Final = 32
_CACHED_MAX: Final = 32_768
TOKEN_CHARS_MAX: Final = 128
"""Longer words and identifiers (base64, hashes) are cut to this."""
COUNT_MAX: Final = 32_767

# Scripts written without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han, Hangul.
_SPACELESS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
_JOINED: Final = re.compile(rf"[^\W{_SPACELESS}]+(?:['’._/:@#+-]+[^\W{_SPACELESS}]+)*|[{_SPACELESS}]+")
_JOINED_ASCII: Final = re.compile(r"[a-z0-9_]+(?:['._/:@#+-]+[a-z0-9_]+)*")
"""What `_JOINED` finds in folded ASCII."""
_BORDERS: Final = "".join(c if re.match(r"[a-z0-9_'./:@#+-]", c) else " " for c in map(chr, range(128)))
"""Folded ASCII by its code, a space for what is in no run: `_JOINED_ASCII` finds nothing across one."""
_PARTS: Final = re.compile(r"[^\W_]+")
_SPACELESS_RUN: Final = re.compile(rf"[{_SPACELESS}]+")
_ENGLISH: Final = re.compile(r"[a-z]+")
_POSSESSIVE: Final = re.compile(r"['’](?:s|m|d|t|ll|re|ve)\b")
_ACCENTED: Final = ("LATIN", "GREEK", "CYRILLIC")

_STOP_TEXT: Final = (
    "a an and are as at be been being but by can could did do does for from had has have he her him his how i if in"
    " into is it its just me my of on or our she so than that the their them then there these they this those to"
    " was we were what when where which who whom why will with would you your"
)
STOP_WORDS: Final = frozenset(_STOP_TEXT.split())
_STEMMER: Final = Stemmer.Stemmer("english")


def text_tokens(text: str) -> Mapping[str, int]:
    """Give the tokens of a text that is kept and how often each occurs; at most `DISTINCT_MAX`."""
    return _count(text, DISTINCT_MAX)


def query_tokens(text: str) -> Mapping[str, int]:
    """Give the tokens of a query, at most `QUERY_DISTINCT_MAX`; empty when the text has no letter or digit."""
    return _count(text, QUERY_DISTINCT_MAX)


def _count(text: str, distinct_max: int) -> Mapping[str, int]:
    folded = fold(text[:CHARS_MAX])
    if folded.isascii():
        found = list(map(_KNOWN.__getitem__, folded.translate(_BORDERS).split()))
    else:
        found = [_tokens(run) for run in _JOINED.findall(folded)]
    tokens = list(chain.from_iterable(map(_WORDS, found))) or list(chain.from_iterable(map(_STOPS, found)))
    counts = Counter(tokens)
    if len(counts) > distinct_max or len(tokens) > COUNT_MAX:
        return {token: min(count, COUNT_MAX) for token, count in islice(counts.items(), distinct_max)}
    return counts


_WORDS: Final = itemgetter(0)
_STOPS: Final = itemgetter(1)
_Tokens = tuple[Sequence[str], Sequence[str]]
"""Words of a run, and its stop words."""


def _tokens(run: str) -> _Tokens:
    if run.isascii():
        return _KNOWN[run]
    if _SPACELESS_RUN.match(run):
        return _pairs(run), ()
    return _word(run)


def fold(text: str) -> str:
    """Give the text as it is compared: NFKC, case-folded, without accents of alphabetic scripts."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    out: list[str] = []
    for char in folded:
        out.append(char if char.isascii() else _without_accent(char))
    return "".join(out)


@lru_cache(maxsize=4_096)
def _without_accent(char: str) -> str:
    if unicodedata.category(char) == "Cf":
        return ""  # zero-width and direction marks do not split a word
    base = unicodedata.normalize("NFD", char)
    if len(base) > 1 and unicodedata.name(base[0], "").startswith(_ACCENTED):
        return base[0]
    return char


def _word(whole: str) -> _Tokens:
    """Give the tokens of a run without spaces (itself if it is an identifier, and its parts), and its stop words."""
    whole = _POSSESSIVE.sub("", whole)
    parts = _PARTS.findall(whole)
    identifier = len(parts) > 1 and any(char.isdigit() for char in whole)
    words = [whole[:TOKEN_CHARS_MAX]] if identifier else []
    words += [_stem(part[:TOKEN_CHARS_MAX]) for part in parts if part not in STOP_WORDS]
    return tuple(words), tuple(_stem(part) for part in parts if part in STOP_WORDS)


class _Known(dict[str, _Tokens]):
    """Tokens of short ASCII chunks: the words of a language come again and again. Dropped once there are too many."""

    def __missing__(self, chunk: str) -> _Tokens:
        runs = [_word(run) for run in _JOINED_ASCII.findall(chunk)]
        found = runs[0] if len(runs) == 1 else (tuple(chain(*map(_WORDS, runs))), tuple(chain(*map(_STOPS, runs))))
        if len(chunk) <= _CACHED_CHARS_MAX:
            if len(self) >= _CACHED_MAX:
                self.clear()
            self[chunk] = found
        return found


_KNOWN: Final = _Known()


def _pairs(run: str) -> list[str]:
    """Give the pairs of neighbours in a run without word borders; a single character stands for itself."""
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


@lru_cache(maxsize=32_768)
def _stem(word: str) -> str:
    if not _ENGLISH.fullmatch(word):
        return word
    stem: str = _STEMMER.stemWord(word)
    return stem
