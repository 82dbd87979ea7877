"""Names and texts that look like what they are.

Skill names are ASCII. Parameter names and texts may be of any script; what is
hidden in them (mixtures that look alike, characters that cannot be seen or that
turn the reading direction) is for domain.poison to find.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

SKILL_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:(?:[.\-]|_{1,2})[A-Za-z0-9]+)*\Z")
SKILL_NAME_LENGTH_MAX: Final = 64
PARAMETER_NAME_LENGTH_MAX: Final = 128

_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_ALIKE: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
_SEPARATORS: Final = re.compile(r"[._\-]+")


def check_skill_name(name: str) -> str | None:
    """Say what is wrong with the name of a skill, or None."""
    if len(name) > SKILL_NAME_LENGTH_MAX:
        return f"a name has more than {SKILL_NAME_LENGTH_MAX} characters"
    if not SKILL_NAME.match(name):
        return "a name is ASCII letters and digits, in parts joined by . - _ or __"
    return None


def collision_key(name: str) -> str:
    """Give what two names share that a model, a prefixing server or a person would mix up.

    Case is folded and every run of separators is one, so `Search` and `search`,
    `a__b` and server `a` with tool `b` (`a.b`) are the same.
    """
    return _SEPARATORS.sub("_", name.casefold())


def check_parameter_name(name: str) -> str | None:
    """Say what is wrong with the name of a parameter, or None."""
    if not name or len(name) > PARAMETER_NAME_LENGTH_MAX:
        return f"a parameter name has 1 to {PARAMETER_NAME_LENGTH_MAX} characters"
    return None


def is_disguised(name: str) -> bool:
    """Tell whether the name of a parameter has letters that look like others (full-width, styled), or odd spaces."""
    return any(
        (c.isalnum() and unicodedata.normalize("NFKC", c) != c) or (unicodedata.category(c) == "Zs" and c != " ")
        for c in name
    )


_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as nothing."""
_VARIATION: Final = re.compile("[\ufe00-\ufe0f]{2,}|[\U000e0100-\U000e01ef]")
_EMOJI_JOINED: Final = re.compile(
    "(?<=[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2190-\u2bff\U0001f000-\U0001faff])"
)
_NEEDS_JOINER: Final = re.compile("(?<=[\u0600-\u08ff\u0900-\u0dff])[\u200c\u200d](?=[\u0600-\u08ff\u0900-\u0dff])")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_STYLED: Final = re.compile("[\U0001d400-\U0001d7ff]{2,}")
_GREEK_LATIN_TWINS: Final = frozenset("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαορνικτυχγ")
_SKELETON: Final = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("0", "o"), ("1", "l"), ("i", "l"), ("5", "s"))


def skeleton(name: str) -> str:
    """Give what two ASCII names share that a reader cannot tell apart at a glance: rn and m, 0 and o, 1, l and I."""
    folded = collision_key(name)
    for seen, meant in _SKELETON:
        folded = folded.replace(seen, meant)
    return folded


def hidden_characters(text: str) -> set[str]:
    """Give the characters of a text that a reader does not see, or that turn what he sees."""
    plain = _NEEDS_JOINER.sub("", _EMOJI_JOINED.sub("", text))
    found = {c for c in plain if c not in "\n\t\r" and (unicodedata.category(c) in _INVISIBLE or c in _BLANK)}
    for run in _VARIATION.findall(plain):
        found |= set(run)
    return found


def has_mixed_scripts(text: str) -> bool:
    """Tell whether a word of the text mixes letters that look alike (Latin and Cyrillic), or is set in look-alikes."""
    if text.isascii():
        return False
    return bool(_STYLED.search(text)) or any(_mixes(word) for word in _WORD.findall(text) if not word.isascii())


def _mixes(word: str) -> bool:
    scripts = {script for c in word for script in _ALIKE if unicodedata.name(c, "").startswith(script + " ")}
    if scripts == {"LATIN", "GREEK"}:  # μm and Δt are no disguise
        return all(c in _GREEK_LATIN_TWINS for c in word if unicodedata.name(c, "").startswith("GREEK "))
    return len(scripts) > 1
