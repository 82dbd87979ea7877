"""The words of a text, as they are compared with what a user has said: no language is guessed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_IDEOGRAPHS: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]+")
_RUN: Final = re.compile(r"[\w.+@\-]+")
_NUMBER: Final = re.compile(r"[\d\-]*\.?[\d\-]*")
_STOP: Final = re.compile("(?<=[^\\W_])\u3002(?=[a-z0-9])")
_SENTENCE: Final = re.compile(r"(?<=[a-z])\.(?=[A-Z][a-z])")
_EDGES: Final = ".+@-_"


def spoken_words(text: str) -> set[str]:
    """Give the words of a text, and each address and name of a host in it as one more word.

    Words that were said here and there say no address: whoever speaks of "this
    report" has not named send@this.report. What was said, and what is compared
    with it, are both taken apart by this.
    """
    return words_of(text) | set(filter(None, map(whole_of, _pieces(text))))


def said_words(text: str) -> set[str]:
    """Give the spoken words of what a user has said; a sentence may begin without a space before it."""
    return spoken_words(text) | spoken_words(_SENTENCE.sub(". ", text))


def whole_of(address: str) -> str:
    """Give an address or a name of a host as it counts among the words; empty where it is none."""
    whole = address.casefold().strip(_EDGES).removeprefix("www.")
    return whole if ("." in whole or "@" in whole) and not _NUMBER.fullmatch(whole) else ""


def _pieces(text: str) -> Iterator[str]:
    """Give what could be an address: between ideographs, which stand beside it without a space, or ending in them."""
    folded = _STOP.sub(".", unicodedata.normalize("NFKC", text).casefold())
    for run in _RUN.findall(folded):
        if "." in run or "@" in run:
            yield from _IDEOGRAPHS.split(run)
            if _IDEOGRAPHS.fullmatch(run.strip(_EDGES).rpartition(".")[2]):
                yield run


def words_of(text: str) -> set[str]:
    """Give the words of a text: NFKC, case folded; runs of ideographs as pairs of neighbours, a lone one as itself."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words: set[str] = set()
    for run in _WORD.findall(folded):
        start = 0
        for ideographs in _IDEOGRAPHS.finditer(run):
            words.update(filter(None, [run[start : ideographs.start()]]))
            words.update(_pairs(ideographs.group()))
            start = ideographs.end()
        words.update(filter(None, [run[start:]]))
    return words


def _pairs(run: str) -> set[str]:
    return {run} if len(run) == 1 else {run[at : at + 2] for at in range(len(run) - 1)}
