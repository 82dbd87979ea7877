"""What in a skill's definition may be meant for the model and hidden from the person who reads it.

A finding is no proof. It keeps a definition out of reach until a person has
looked at it (`mos skill accept`), so a rule here may be wrong now and then, but
must leave the tools that people publish alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from memoryos_toolgateway.domain import pointers
from memoryos_toolgateway.domain.names import has_mixed_scripts, hidden_characters, is_disguised
from memoryos_toolgateway.domain.poison_patterns import RAW_PATTERNS, TEXT_PATTERNS

TEXT_CHARS_MAX: Final = 65_536
"""A skill file's schema is not longer."""
FINDINGS_MAX: Final = 20
_BLOB: Final = re.compile(r"[A-Za-z0-9+/_-]{80,}={0,2}")
_SPACE: Final = re.compile(r"\s+")
_FAR_BELOW: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*){14}|[ \t\u3000]{80}")
_BLOB_CLASSES_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """Something hidden: where, which rule, and what a person should do about it."""

    pointer: str
    rule: str
    text: str


def findings(document: dict[str, Any]) -> list[Finding]:
    """Give what a person should see before this definition is used; at most FINDINGS_MAX."""
    found: list[Finding] = []
    for key in ("name", "description", "system", "parameters"):
        for parts, text in _texts(document.get(key), (key,)):
            found.extend(_of_text(pointers.join(parts), text))
            if parts[-2:-1] == ("properties",) and is_disguised(text):
                found.append(
                    Finding(pointers.join(parts), "look_alike", "is a name with letters that look like others")
                )
            if len(found) >= FINDINGS_MAX:
                return found[:FINDINGS_MAX]
    return found


def _texts(value: Any, parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Give every text that a model would be shown, keys too, with where it stands."""
    if isinstance(value, str):
        yield parts, value
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*parts, str(index)))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*parts, key), key
            yield from _texts(inner, (*parts, key))


def _of_text(pointer: str, text: str) -> Iterator[Finding]:
    hidden = hidden_characters(text)
    if hidden:
        names = ", ".join(f"U+{ord(c):04X}" for c in sorted(hidden)[:4])
        yield Finding(pointer, "invisible", f"has characters that cannot be seen or that turn the text: {names}")
    if has_mixed_scripts(text):
        yield Finding(pointer, "look_alike", "has a word of letters from scripts that look alike")
    if _FAR_BELOW.search(text):
        yield Finding(pointer, "far_below", "has so much empty space that a reader may miss what follows")
    for rule, pattern, say in RAW_PATTERNS:
        if pattern.search(text):
            yield Finding(pointer, rule, say)
    if any(_is_blob(match[0]) for match in _BLOB.finditer(text)):
        yield Finding(pointer, "blob", "has a long encoded text that nobody can read")
    plain = as_read(text)
    for rule, pattern, say in TEXT_PATTERNS:
        if pattern.search(plain):
            yield Finding(pointer, rule, say)


def as_read(text: str) -> str:
    """Give the text as a model may read it: compatibility forms, case, invisible characters and spacing aside."""
    folded = unicodedata.normalize("NFKC", text[:TEXT_CHARS_MAX]).casefold()
    seen = "".join(c for c in folded if c in "\n\t" or unicodedata.category(c) not in ("Cf", "Cc", "Mn"))
    return _SPACE.sub(" ", seen.replace("’", "'"))


def _is_blob(text: str) -> bool:
    """Tell whether a run of letters and digits is an encoding and no path or name."""
    classes = (str.islower, str.isupper, str.isdigit)
    if sum(any(kind(c) for c in text) for kind in classes) < _BLOB_CLASSES_MIN:
        return False
    longest = max(map(len, re.split(r"[/_-]", text)))
    return longest >= 60 and not re.search(r"[a-z]{24}", text)
