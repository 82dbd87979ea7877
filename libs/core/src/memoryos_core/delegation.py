"""Chains of delegation: a person, the agent that works for it, the agent that works for that one (RFC 8693).

A chain is kept link by link. Whoever makes a token of its last link checks the
whole of it first: each link lies within the one before, names one more agent,
and is of the same user. Nothing here believes that a link was made rightly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from memoryos_core import principals
from memoryos_core.errors import NotAllowed
from memoryos_core.paths import MemoryPath, PathInvalid
from memoryos_core.tokens import CHAIN_LENGTH_MAX, Identity

LINKS_MAX: Final = CHAIN_LENGTH_MAX + 1
_AGENT_ROLES: Final = frozenset({"agent", "user"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one in a chain may do, and the services that its tokens are good for."""

    identity: Identity
    audience: frozenset[str]


class ChainBroken(NotAllowed):
    """The chain that a token would be made from is not whole; `link` and `what` say where."""

    def __init__(self, link: int, what: str) -> None:
        super().__init__("The chain of agents is not whole.", metadata={"link": str(link), "what": what})
        self.what = what


def checked_chain(links: Sequence[Link]) -> Identity:
    """Give the identity of the last link, or raise ChainBroken at the first one that is wider than the one before.

    The first link is who asked, as its verified token said. A chain of one link
    has no agent that works for it yet.
    """
    if not 1 <= len(links) <= LINKS_MAX:
        raise ChainBroken(0, "length")
    tasks = [links[0].identity.task_id]
    for number, (outer, inner) in enumerate(pairwise(links), start=1):
        what = _wider(outer.identity, inner.identity) or _elsewhere(inner.identity, tasks)
        # A person may speak in any session of its own; from then on all of the chain is in one.
        if not what and number > 1 and inner.identity.session_id != outer.identity.session_id:
            what = "session"
        if not what and not (inner.audience and inner.audience <= outer.audience):
            what = "audience"
        if what:
            raise ChainBroken(number, what)
        tasks.append(inner.identity.task_id)
    return links[-1].identity


def _wider(outer: Identity, inner: Identity) -> str:
    """Give what `inner` has that `outer` does not give, or nothing."""
    agent = inner.chain[-1] if inner.chain else ""
    checks = {
        "tenant": inner.tenant == outer.tenant,
        "user": inner.user == outer.user,
        "chain": inner.chain == (*outer.chain, agent) and principals.is_name(agent),
        "roles": "agent" in inner.roles and inner.roles <= (outer.roles & _AGENT_ROLES) | {"agent"},
        "groups": inner.groups <= outer.groups,
        "clearance": inner.clearance <= outer.clearance,
        "read_paths": _within(inner.read_paths, outer.read_paths, outer.tenant),
        "write_paths": _within(inner.write_paths, outer.write_paths, outer.tenant),
        "life": inner.expire_time <= outer.expire_time,
    }
    return next((what for what, held in checks.items() if not held), "")


def _elsewhere(inner: Identity, tasks: Collection[str]) -> str:
    return "" if inner.session_id and inner.task_id and inner.task_id not in tasks else "task"


def _within(asked: Sequence[str] | None, ceiling: Sequence[str] | None, tenant: str) -> bool:
    """Tell whether each path lies below one of the ceiling; an agent has a ceiling always."""
    if asked is None:
        return False
    try:
        wanted = [MemoryPath.parse(path) for path in asked]
        allowed = None if ceiling is None else [MemoryPath.parse(path) for path in ceiling]
    except PathInvalid:
        return False
    return all(
        path.tenant == tenant and (allowed is None or any(top.contains(path) for top in allowed)) for path in wanted
    )
