"""The words of a text, as they are compared with what a user has said: no language is guessed."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
_IDEOGRAPHS: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]+")


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
