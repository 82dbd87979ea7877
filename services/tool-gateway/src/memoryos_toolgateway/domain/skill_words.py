"""The words of a skill and of what somebody wants to do, as search compares them.

Names are taken apart (`getUserById`, `get_user.by-id`), English is stemmed and
its stop words dropped, Chinese, Japanese and Korean give pairs of neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

import Stemmer

TEXT_CHARS_MAX: Final = 65_536
_ENUM_VALUES_MAX: Final = 20
_DEPTH_MAX: Final = 3
_SPACELESS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_RUN: Final = re.compile(rf"[{_SPACELESS}]+|[^\W_{_SPACELESS}]+")
SPACELESS: Final = re.compile(rf"[{_SPACELESS}]")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS: Final = re.compile(r"[._\-/]+")
_STOP_TEXT: Final = (
    "a an and are as at be been being but by can could did do does for from had has have he her him his how i if in"
    " into is it its just me my of on or our she so than that the their them then there these they this those to"
    " was we were what when where which who whom why will with would you your"
)
_STOP_WORDS: Final = frozenset(_STOP_TEXT.split())
_STEMMER: Final = Stemmer.Stemmer("english")
_ASKING_TEXT: Final = "able give hello help hi know let like need please show sure tell thank thanks want"
_ASKING: Final = frozenset(_STEMMER.stemWords(_ASKING_TEXT.split()))


def words(text: str) -> list[str]:
    """Give the words of a text in order, each as often as it is there."""
    found: list[str] = []
    for run in _RUN.findall(_HUMP.sub(" ", unicodedata.normalize("NFKC", text[:TEXT_CHARS_MAX]))):
        if SPACELESS.match(run):
            found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
        elif (word := run.casefold()) not in _STOP_WORDS:
            found.append(_STEMMER.stemWord(word))
    return found


def asked_words(request: str) -> list[str]:
    """Give the words of a request, each once, without those that only ask."""
    return [word for word in dict.fromkeys(words(request)) if word not in _ASKING]


def spoken(name: str) -> str:
    """Give a name as words with spaces."""
    return _JOINTS.sub(" ", _HUMP.sub(" ", name))


def parameter_texts(schema: Any, depth: int = 0) -> Iterator[str]:
    """Give names, descriptions and listed values of the parameters, inner ones too."""
    if not isinstance(schema, dict) or depth >= _DEPTH_MAX:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield name
        if not isinstance(inner, dict):
            continue
        if isinstance(inner.get("description"), str):
            yield inner["description"]
        if isinstance(inner.get("enum"), list):
            yield " ".join(str(value) for value in inner["enum"][:_ENUM_VALUES_MAX])
        yield from parameter_texts(inner, depth + 1)
        yield from parameter_texts(inner.get("items"), depth + 1)
