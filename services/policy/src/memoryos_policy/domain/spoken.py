"""Which arguments of a call its user has said: pure functions over arguments and said words.

An argument counts when all of its words were said in the session, wherever
they stood. It says nothing of what was meant; rules ask it of recipients and
targets, so that what only a web page or a mail has named is told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from memoryos_core.canonical import JsonValue
from memoryos_core.words import spoken_words, words_of

TEXTS_MAX: Final = 256
"""Texts among the arguments that are looked at, in their order; further ones count as not said."""
TEXT_CHARS_MAX: Final = 2_000
"""A longer text is no name and no order: it counts as not said."""

_MAIL: Final = re.compile(r"(?P<local>[^\s@<>\"\\,;:]{1,64})@(?P<host>[\w.\-]{1,253})")
_HOST: Final = re.compile(r"[\w\-]{1,63}(?:\.[\w\-]{1,63})+\.?")
_BARE_URL: Final = re.compile(r"[\w\-]{1,63}(?:\.[\w\-]{1,63})+(?::\d{1,5})?(?:[/?#]\S*)?")


@dataclass(frozen=True, slots=True)
class Text:
    """One text among the arguments: its JSON pointer, its words, and those of the address or URL that it is."""

    pointer: str
    words: frozenset[str]
    name: frozenset[str]


def texts_of(arguments: JsonValue) -> tuple[Text, ...]:
    """Give the texts of arguments, by their order."""
    short = ((pointer, text) for pointer, text in _walk(arguments, "") if len(text) <= TEXT_CHARS_MAX)
    return tuple(
        Text(pointer, frozenset(spoken_words(text)), frozenset(_name(text)))
        for pointer, text in islice(short, TEXTS_MAX)
    )


def words_asked(texts: Iterable[Text], intents: Iterable[str]) -> set[str]:
    """Give all words whose being said decides `said`, `named` and `asked`."""
    return {word for text in texts for word in text.words | text.name}.union(*map(words_of, intents))


def said(texts: Iterable[Text], words: Set[str]) -> list[str]:
    """Give the pointers of the texts all of whose words are among `words`; one without words is not."""
    return [text.pointer for text in texts if text.words and text.words <= words]


def named(texts: Iterable[Text], words: Set[str]) -> list[str]:
    """Give the pointers of e-mail addresses whose local part, and of URLs whose host, was said."""
    return [text.pointer for text in texts if text.name and text.name <= words]


def asked(intents: Iterable[str], words: Set[str]) -> bool:
    """Tell whether the user said one of the intents of a skill, each of one or more words."""
    return any(wanted and wanted <= words for wanted in map(words_of, intents))


def _name(text: str) -> set[str]:
    """Give the words of the local part of an e-mail address, or of the host of a URL; nothing of anything else.

    A host is named as a whole, a local part by its words: people have names.

    A URL that two parsers could read differently has none: user and password,
    backslashes, white space and control characters are refused.
    """
    mail = _MAIL.fullmatch(text)
    if mail:
        return words_of(mail["local"])
    if "@" in text or "\\" in text or not text.isprintable() or " " in text:
        return set()
    if _BARE_URL.fullmatch(text):
        text = f"//{text}"
    elif not text.lower().startswith(("http://", "https://")):
        return set()
    try:
        parts = urlsplit(text)
        host = parts.hostname or "" if parts.port != 0 else ""  # a port that is no number raises
    except ValueError:
        return set()
    return spoken_words(host.removeprefix("www.")) if _HOST.fullmatch(host) else set()


def _walk(value: JsonValue, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _walk(value[key], f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _walk(inner, f"{pointer}/{number}")
