"""Which state of an item was before some of its changes, and what a point had seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from memoryos_memoryfs.domain.items import Cause, State
from memoryos_memoryfs.domain.points import Earlier, Mark, before_all, before_last, seen_by_others

ACTIVE, FORGOTTEN = State.ACTIVE, State.FORGOTTEN


def made(revision: int, actor: str = "user:a", cause: Cause = Cause.UPDATE) -> Mark:
    now = datetime.now(UTC)
    return Mark(item_id="mem_1", revision=revision, at=now, actor=actor, cause=cause, from_state=None, to_state=None)


def moved(revision: int, before: State, after: State, actor: str = "user:a") -> Mark:
    return replace(made(revision, actor), from_state=before, to_state=after)


@pytest.mark.parametrize(
    ("point", "xid", "expected"),
    [
        ("100:100:", 100, "100:100:"),  # it begins after the point: not seen
        ("100:105:", 101, "100:105:101"),
        ("100:105:100,103", 101, "100:105:100,101,103"),
        ("100:105:101", 101, "100:105:101"),
        ("103:105:", 101, "101:105:101"),
    ],
)
def test_a_point_does_not_see_its_own_transaction(point, xid, expected):
    assert seen_by_others(point, xid) == expected


def test_an_item_made_since_was_not_there():
    assert before_all([made(1), made(2), moved(2, ACTIVE, FORGOTTEN)]) == Earlier(revision=0)


def test_a_changed_item_was_the_revision_before():
    assert before_all([made(4), made(5)]) == Earlier(revision=3)


def test_a_state_changed_since_is_the_one_before():
    assert before_all([moved(2, ACTIVE, FORGOTTEN), moved(2, FORGOTTEN, ACTIVE)]) == Earlier(revision=2, state=ACTIVE)
    back = Earlier(revision=2, state=FORGOTTEN, forgotten_from=ACTIVE)
    assert before_all([moved(2, FORGOTTEN, ACTIVE), made(3)]) == back


def test_tiers_toggle():
    cooled = moved(2, ACTIVE, ACTIVE)
    assert before_all([cooled]) == Earlier(revision=2, state=ACTIVE, other_tier=True)
    assert before_all([cooled, cooled]) == Earlier(revision=2, state=ACTIVE)
    # of a later revision it says nothing about the earlier one
    assert before_all([moved(2, ACTIVE, FORGOTTEN), moved(3, ACTIVE, ACTIVE)]) == Earlier(revision=2, state=ACTIVE)


def test_only_the_end_of_matching_changes_is_undone():
    def by_agent(mark: Mark) -> bool:
        return mark.actor == "agent:a/x"

    agent = "agent:a/x"
    assert before_last([made(2), made(3, agent), made(4, agent)], by_agent) == Earlier(revision=2)
    assert before_last([made(2, agent), made(3)], by_agent) is None
    assert before_last([made(2)], by_agent) is None
    cooled = moved(3, ACTIVE, ACTIVE, "service:memoryfs")
    assert before_last([made(2), made(3, agent), cooled], by_agent) == Earlier(revision=2)
    assert before_last([cooled], by_agent) is None
    released = made(4, cause=Cause.RELEASE)
    assert before_last([made(2), made(3, agent), released], by_agent) == Earlier(revision=2)
    assert before_last([made(2), released], by_agent) is None
