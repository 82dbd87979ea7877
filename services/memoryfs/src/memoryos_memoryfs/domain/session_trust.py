"""What items bring into the session that is given them, and how far what it writes then is trusted.

Memory washes nothing off: who reads an untrusted item has seen untrusted content, in
whatever session; and what an agent writes after that is untrusted, whatever it says
of where it has it from. So the next reader has seen it, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from memoryos_core.scope import Scope

from memoryos_memoryfs.domain.items import Cause, Item, Trust

UNTRUSTED_CONTENT: Final = "untrusted_content"
PERSONAL_DATA: Final = "personal_data"
_WORDS: Final = frozenset({Cause.WRITE, Cause.UPDATE, Cause.MERGE, Cause.REVERT, Cause.IMPORT})
"""Changes by which the caller says something; others move what was said before."""


def facts_of(scope: Scope, items: Iterable[Item]) -> frozenset[str]:
    """Give what a session has seen once it is given these items.

    Untrusted content where one is untrusted. Personal data where one needs a
    clearance, or concerns somebody else than the user of the session.
    """
    facts = set()
    for item in items:
        if item.trust is not Trust.TRUSTED:
            facts.add(UNTRUSTED_CONTENT)
        if item.sensitivity > 0 or (item.user and item.user != scope.user):
            facts.add(PERSONAL_DATA)
    return frozenset(facts)


def taintable(cause: Cause) -> bool:
    """Tell whether a revision of this cause says something new in the name of the caller."""
    return cause in _WORDS


def trust_after(before: Trust, asked: Trust, scope: Scope) -> Trust:
    """Give the trust of an item that is changed: only a person by itself lets an untrusted one be trusted."""
    return before if before is Trust.UNTRUSTED and not scope.alone else asked
