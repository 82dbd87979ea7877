"""Points in the history of items, and what an item was before some of its changes.

What became of an item has one order: by revision, and within a revision first its
making, then the changes of state that were made to it. Every change happens under
the lock of its item, so what a point has seen is a beginning of that order. To go
back is to undo from the end: the earliest change undone says what was before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memoryos_memoryfs.domain.drafts import etag_of
from memoryos_memoryfs.domain.items import Cause, Item, State, Tier


def seen_by_others(point: str, xid: int) -> str:
    """Give the pg_snapshot `point` (xmin:xmax:xip,…) as it is for transactions other than its own.

    A transaction does not list itself among those that run, so its own changes
    would count as seen.
    """
    xmin, xmax, running = point.split(":")
    if xid >= int(xmax):
        return point
    numbers = sorted({xid, *(int(number) for number in running.split(",") if number)})
    return f"{min(int(xmin), xid)}:{xmax}:{','.join(map(str, numbers))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One change of an item since a point, without its content."""

    item_id: str
    revision: int
    at: datetime
    actor: str
    cause: Cause
    from_state: State | None
    """None: it made the revision; else the state that it changed."""
    to_state: State | None

    @property
    def follows(self) -> bool:
        """Tell whether it came with a change of something else, or of the tier only: nothing is built on it."""
        return self.of_tier or self.cause is Cause.RELEASE

    @property
    def of_tier(self) -> bool:
        """Tell whether the item changed its tier only: from hot to cold or back."""
        return self.from_state is not None and self.from_state is self.to_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Which state of an item was before a change."""

    revision: int
    """0: the item was not there."""
    state: State | None = None
    """None: the one in which that revision was replaced."""
    forgotten_from: State | None = None
    """What it was to come back to, if it left the forgotten state in that revision."""
    other_tier: bool = False
    """It was in the other tier than that revision is, or was when it was replaced."""
    withheld: bool = False
    """Its source is gone: it comes back with all that it was, but forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """An item as it was at some time."""

    item: Item
    forgotten_from: State | None
    """Of a forgotten one: what it would come back to."""


def before_all(marks: Sequence[Mark]) -> Earlier:
    """Give what an item was before the first of its changes."""
    return _before(marks)


def before_last(marks: Sequence[Mark], undone: Callable[[Mark], bool]) -> Earlier | None:
    """Give what an item was before the changes at its end that are to be undone; None where its last one is not.

    A change that is to be undone but has another one built on it stays; what
    `follows` is not built on anything.
    """
    back: list[Mark] = []
    for mark in reversed(marks):
        if undone(mark):
            back.append(mark)
        elif not mark.follows:
            break
    return _before(back[::-1]) if back else None


def _before(marks: Sequence[Mark]) -> Earlier:
    first = marks[0]
    if first.from_state is None:
        return Earlier(revision=first.revision - 1)
    moves = sum(mark.of_tier for mark in marks if mark.revision == first.revision)
    return Earlier(
        revision=first.revision,
        state=first.from_state,
        forgotten_from=_back_to(marks, first) if first.from_state is State.FORGOTTEN else None,
        other_tier=moves % 2 == 1,
    )


def _back_to(marks: Sequence[Mark], first: Mark) -> State | None:
    """Give the state in which an item came back in the revision of `first`, before which its tier may have changed."""
    left = (m.to_state for m in marks if m.revision == first.revision and m.from_state is State.FORGOTTEN)
    return next((state for state in left if state is not State.FORGOTTEN), None)


def as_it_was(earlier: Earlier, item: Item) -> Item:
    """Give `item`, which has the revision of `earlier`, in the state and tier in which it was then."""
    tier = (Tier.HOT if item.tier is Tier.COLD else Tier.COLD) if earlier.other_tier else item.tier
    state = State.FORGOTTEN if earlier.withheld else earlier.state or item.state
    return replace(item, state=state, tier=tier)


def to_come_back_to(earlier: Earlier, former: Former) -> State | None:
    """Give what Restore makes of `former`, the revision of `earlier`; None where that is not forgotten."""
    state = earlier.state or former.item.state
    if state is not State.FORGOTTEN:
        return state if earlier.withheld else None
    return earlier.forgotten_from or former.forgotten_from


def given_back(before: Item, then: Item, now: datetime) -> Item:
    """Give the next revision of `before`, which equals `then` in all but its number, etag and time."""
    revision = before.revision + 1
    return replace(
        then,
        create_time=before.create_time,
        revision=revision,
        etag=etag_of(before.id, revision, now),
        update_time=now,
    )


def wider(before: Item, after: Item) -> bool:
    """Tell whether more principals, or those with less clearance, may read `after`."""
    held = {before.owner, *before.readers}
    return not {after.owner, *after.readers} <= held or after.sensitivity < before.sensitivity
