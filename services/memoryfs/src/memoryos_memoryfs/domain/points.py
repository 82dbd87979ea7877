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
from memoryos_memoryfs.domain.items import Item, State


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
    from_state: State | None
    """None: it made the revision; else the state that it changed."""
    to_state: State | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Which state of an item was before a change."""

    revision: int
    """0: the item was not there."""
    state: State | None = None
    """None: the one in which that revision was replaced."""
    forgotten_from: State | None = None


def before_all(marks: Sequence[Mark]) -> Earlier:
    """Give what an item was before the first of its changes."""
    return _before(marks[0])


def before_last(marks: Sequence[Mark], undone: Callable[[Mark], bool]) -> Earlier | None:
    """Give what an item was before the changes at its end that are to be undone; None where its last one is not.

    A change that is to be undone but has another one built on it stays.
    """
    first: Mark | None = None
    for mark in reversed(marks):
        if not undone(mark):
            break
        first = mark
    return None if first is None else _before(first)


def _before(mark: Mark) -> Earlier:
    if mark.from_state is None:
        return Earlier(revision=mark.revision - 1)
    back = mark.to_state if mark.from_state is State.FORGOTTEN else None
    return Earlier(revision=mark.revision, state=mark.from_state, forgotten_from=back)


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """An item as it was at some time."""

    item: Item
    forgotten_from: State | None
    """Of a forgotten one: what it would come back to."""


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
