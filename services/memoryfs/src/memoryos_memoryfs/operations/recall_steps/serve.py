"""The re-read from the truth: candidates are worthless until it says that they may leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.filter_meaning import matches
from memoryos_memoryfs.domain.fusion import Fused
from memoryos_memoryfs.domain.hits import Hit
from memoryos_memoryfs.domain.items import Item, State, Tier
from memoryos_memoryfs.domain.verdicts import Verdict
from memoryos_memoryfs.ports.storage import Look, Work


@dataclass(frozen=True, slots=True)
class Served:
    """Hits that may leave, best first, and how many candidates before the last of them may not."""

    hits: list[Hit]
    refused_count: int


_STATES: Final = {
    State.CANDIDATE: Verdict.GATED,
    State.SUPERSEDED: Verdict.SUPERSEDED,
    State.FORGOTTEN: Verdict.FORGOTTEN,
}


def served(scope: Scope, look: Look, item: Item, now: datetime) -> bool:
    """Tell, by the truth alone, whether this item may leave and is meant by `look`."""
    return refusal(scope, look, item, now) is None


def refusal(scope: Scope, look: Look, item: Item, now: datetime) -> Verdict | None:
    """Give the first reason for which the truth lets this item not leave, None when it may."""
    if not scope.may_read(item.path) or not any(path.contains(item.path) for path in look.paths):
        return Verdict.OTHER_PATH
    if not access.admitted(scope, item):
        return Verdict.ACL
    if item.sensitivity > scope.clearance:
        return Verdict.CLEARANCE
    if item.expired(now):
        return Verdict.EXPIRED
    if item.state not in look.states:
        return _STATES[item.state]
    if not _holds_at(item, look.valid_at):
        return Verdict.NOT_VALID_THEN
    if item.tier is Tier.COLD and not look.include_cold:
        return Verdict.COLD
    return None if matches(look.where, item) else Verdict.FILTERED


def _holds_at(item: Item, at: datetime | None) -> bool:
    """Tell whether the item holds in the world at an instant (half-open); None: whenever."""
    return at is None or (item.valid_from <= at and (item.valid_to is None or at < item.valid_to))


async def serve(
    work: Work, scope: Scope, look: Look, candidates: Sequence[Fused], *, count: int, now: datetime
) -> Served:
    """Read candidates again from the truth, best first, until `count` of them may be served."""
    hits: list[Hit] = []
    refused = 0
    for start in range(0, len(candidates), count):
        some = candidates[start : start + count]
        found = await work.items.find([candidate.id for candidate in some], last=True)
        for candidate in some:
            item = found.get(candidate.id)
            if item is not None and served(scope, look, item, now):
                hits.append(hit_of(item, candidate))
            else:
                refused += 1
        if len(hits) >= count:
            break
    return Served(hits[:count], refused)


def hit_of(item: Item, candidate: Fused) -> Hit:
    """Give a candidate with its item."""
    return Hit(
        item=item,
        score=candidate.score,
        dense=candidate.dense,
        lexical=candidate.lexical,
        beside=candidate.beside,
    )
