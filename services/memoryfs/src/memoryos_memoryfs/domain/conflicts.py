"""What a new item means for those that are there: it says the same, or it replaces what was true before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.domain.restatements import Sameness, compare


def same_place(one: Item, other: Item) -> bool:
    """Tell whether two items speak for and about the same people at places of which one lies in the other."""
    beside = one.path.contains(other.path) or other.path.contains(one.path)
    return beside and one.owner == other.owner and one.user == other.user


def restates(new: Item, kept: Item, now: datetime) -> bool:
    """Tell whether `new` says no more than `kept` does: the same words in sense, and nothing stated that differs.

    Doubt keeps both: other attributes, labels, readers, sensitivity or validity are more than a re-statement.
    """
    if kept.state not in (State.ACTIVE, State.CANDIDATE) or kept.expired(now):
        return False
    stated = new.valid_from != new.create_time  # else it is the instant of the call, and calls overtake each other
    if kept.valid_to != new.valid_to or (stated and new.valid_from < kept.valid_from):
        return False
    if new.payload.event_key is not None and new.payload.event_key != kept.payload.event_key:
        return False
    if new.payload.attributes and new.payload.attributes != kept.payload.attributes:
        return False
    if not set(new.tags) <= set(kept.tags) or not set(new.readers) <= set(kept.readers):
        return False
    if new.sensitivity > kept.sensitivity or (new.pinned and not kept.pinned):
        return False
    return compare(new.payload.content, kept.payload.content) is Sameness.SAME


def settle(new: Item, chain: Sequence[Item]) -> tuple[Item, list[Item]]:
    """Give `new` and the items of the same event that it changes, so that their validities meet and one is current.

    `chain` holds the active and superseded items about the event. A later fact ends the earlier one at its own
    `valid_from`. One that comes late takes its place among those before: superseded from the start, its end
    the beginning of the next. Of two that begin at once the one that comes later in the record stands.
    """
    if new.state is not State.ACTIVE:
        return new, []
    earlier = [item for item in chain if item.valid_from <= new.valid_from]
    later = [item for item in chain if item.valid_from > new.valid_from]
    changed = []
    before = max(earlier, key=lambda item: (item.valid_from, item.create_time, item.id), default=None)
    if before is not None and _reaches(before, new):
        changed.append(replace(before, state=State.SUPERSEDED, valid_to=_earliest(before, new), superseded_by=new.id))
    after = min(later, key=lambda item: (item.valid_from, item.create_time, item.id), default=None)
    if after is not None:
        end = after.valid_from if new.valid_to is None else min(new.valid_to, after.valid_from)
        new = replace(new, state=State.SUPERSEDED, valid_to=end, superseded_by=after.id)
    return new, changed


def _reaches(before: Item, new: Item) -> bool:
    """Tell whether `before` still held when `new` began, or is the current one."""
    return before.state is State.ACTIVE or before.valid_to is None or before.valid_to > new.valid_from


def _earliest(before: Item, new: Item) -> datetime:
    return new.valid_from if before.valid_to is None else min(before.valid_to, new.valid_from)
