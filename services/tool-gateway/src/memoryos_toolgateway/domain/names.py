"""Names and texts that look like what they are.

Skill names are ASCII. Parameter names may be of any script, but not of a
mixture that looks alike, and nothing here may hold characters that cannot be
seen or that turn the reading direction.
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
    if has_invisible(name) or any(unicodedata.category(c) == "Zs" and c != " " for c in name):
        return "a parameter name has an invisible or direction character"
    if unicodedata.normalize("NFKC", name) != name:
        return "a parameter name has a compatibility character that looks like another"
    scripts = {script for c in name if c.isalpha() for script in _ALIKE if unicodedata.name(c, "").startswith(script)}
    if len(scripts) > 1:
        return "a parameter name mixes scripts that look alike"
    return None


def has_invisible(text: str, *, allowed: str = "") -> bool:
    """Tell whether `text` has a control, format, private or unassigned character beyond `allowed`."""
    return any(unicodedata.category(c) in _INVISIBLE and c not in allowed for c in text)
