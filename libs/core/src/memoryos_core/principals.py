"""Principals: typed strings that name who may read or write.

user:u42, group:sales-east, role:auditor, agent:{user}/{name}, tenant:* (everyone
of the tenant). They come from verified tokens (callers) or from stored ACLs.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

EVERYONE: Final = "tenant:*"
NAME_BYTES_MAX: Final = 200
_FORBIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_AGENT: Final = re.compile(r"agent:([^/]+)/([^/]+)\Z")


def is_name(text: str) -> bool:
    """Tell whether `text` can be the name of a user, group, role, agent or tenant."""
    return (
        len(text) > 0
        and text not in ("*", ".", "..")
        and "/" not in text
        and not any(unicodedata.category(c) in _FORBIDDEN for c in text)
        and len(text.encode()) <= NAME_BYTES_MAX
        and unicodedata.is_normalized("NFC", text)
    )


def person(name: str) -> str:
    """Give what names of one person have in common: sources of identity differ in case and width of letters."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def user(name: str) -> str:
    """Give the principal of a user."""
    return f"user:{name}"


def group(name: str) -> str:
    """Give the principal of a group."""
    return f"group:{name}"


def role(name: str) -> str:
    """Give the principal of a role."""
    return f"role:{name}"


def agent(user_name: str, name: str) -> str:
    """Give the principal of an agent that acts for a user."""
    return f"agent:{user_name}/{name}"


def is_principal(text: str) -> bool:
    """Tell whether `text` is a well-formed principal."""
    if text == EVERYONE:
        return True
    kind, _, name = text.partition(":")
    if kind in ("user", "group", "role"):
        return is_name(name)
    match = _AGENT.match(text)
    return bool(match and is_name(match[1]) and is_name(match[2]))
