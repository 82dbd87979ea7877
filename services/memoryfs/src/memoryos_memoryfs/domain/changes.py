"""What became of an item, as history and feeds tell it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memoryos_memoryfs.domain.items import Cause, Item, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One revision, or one change of state that made none."""

    item_id: str
    at: datetime
    cause: Cause
    actor: str
    """The principal that acted: the innermost agent, else the user."""
    trace_id: str
    from_state: State | None
    """None: a new item, or not for this caller to know."""
    to_state: State
    revision: int
    item: Item | None
    """The item as that revision has it; None where the change made none or the caller may not read it."""


def actor_parts(actor: str) -> tuple[str, tuple[str, ...]]:
    """Give user and agents of an actor, agent:{user}/{name} or user:{user}."""
    kind, _, rest = actor.partition(":")
    if kind == "agent":
        user, _, name = rest.partition("/")
        return user, (name,)
    return rest, ()
