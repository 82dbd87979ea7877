"""Boosts and diversity: in 0..1, monotone in the match, nothing without a weight."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from memoryos.memoryfs.v1 import memoryfs_pb2
from memoryos_core.ids import SequenceIds
from memoryos_core.paths import MemoryPath
from memoryos_memoryfs.domain.drafts import Moment, new_item
from memoryos_memoryfs.domain.hits import Hit
from memoryos_memoryfs.domain.ranking import Boosts, boosted, diversified, likeness_of, newness
from memoryos_memoryfs.domain.settings import effective
from memoryos_memoryfs.messages import draft_of
from memoryos_testing import scope_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = MemoryPath.parse("/tenants/acme/memory/episodic")
unit = st.floats(0, 1)
weights = st.builds(
    Boosts,
    recency=unit,
    importance=unit,
    use=unit,
    half_life=st.timedeltas(timedelta(microseconds=1), timedelta(days=10**6)),
)
ITEM = new_item(
    draft_of(memoryfs_pb2.WriteEntry(content="red apple pie"), "entries[0]"),
    Moment(scope=scope_of(user="alice"), path=PATH, now=NOW, new_id=SequenceIds().new, holding=effective([])),
)


def hit(score: float, name: str = "mem_a", *, days: float = 0.0, importance: float = 0.5, content: str = "") -> Hit:
    payload = replace(ITEM.payload, content=content or ITEM.payload.content)
    item = replace(ITEM, id=name, valid_from=NOW - timedelta(days=days), importance=importance, payload=payload)
    return Hit(item=item, score=score)


@given(unit, unit, weights, st.floats(-1e6, 7e5), unit, st.integers(0, 10**9))
def test_a_boosted_score_stays_in_scale_and_grows_with_the_match(one, other, boosts, days, importance, uses):
    low, high = sorted((one, other))
    used = {"mem_a": uses}
    lifted = [boosted(hit(score, days=days, importance=importance), boosts, NOW, used).score for score in (low, high)]
    assert 0 <= lifted[0] <= 1
    assert low <= lifted[0]
    assert lifted[0] <= lifted[1] + 1e-12


@given(unit, st.floats(0, 7e5), unit)
def test_without_a_weight_nothing_changes_and_no_part_is_told(score, days, importance):
    before = hit(score, days=days, importance=importance)
    assert boosted(before, Boosts(), NOW, {"mem_a": 5}) == before


def test_what_does_not_match_is_not_lifted_and_a_full_weight_closes_in_proportion():
    full = Boosts(importance=1.0)
    assert boosted(hit(0.0, importance=1.0), full, NOW, {}).score == 0
    assert boosted(hit(0.5, importance=1.0), full, NOW, {}).score == 0.75
    assert boosted(hit(0.5, importance=1.0), Boosts(importance=0.5), NOW, {}).score == 0.625
    assert boosted(hit(1.0), Boosts(recency=1, importance=1, use=1), NOW, {}).score == 1


def test_newness_halves_with_every_half_life_and_what_is_to_come_is_new():
    month = timedelta(days=30)
    assert [newness(NOW - n * month, NOW, month) for n in (0, 1, 2)] == [1, 0.5, 0.25]
    assert newness(NOW + month, NOW, month) == 1
    assert newness(datetime(1, 1, 1, tzinfo=UTC), NOW, timedelta(microseconds=1)) == 0


scored = st.lists(st.tuples(unit, st.sampled_from(["a b", "a b c", "d", "e f", "客户"])), max_size=12)


@given(scored, unit)
def test_diversity_keeps_every_hit_once_and_the_scores_in_order(drawn, diversity):
    hits = sorted(
        (hit(score, f"mem_{n}", content=text) for n, (score, text) in enumerate(drawn)), key=lambda h: -h.score
    )
    kept = diversified(hits, diversity, likeness_of({}), len(hits))
    assert sorted(one.item.id for one in kept) == sorted(one.item.id for one in hits)
    scores = [one.score for one in kept]
    assert scores == sorted(scores, reverse=True)
    assert all(
        0 <= one.score <= before.score + 1e-12 for one in kept for before in hits if before.item.id == one.item.id
    )
    assert kept[: len(kept) // 2] == diversified(hits, diversity, likeness_of({}), len(hits) // 2)
    if not diversity:
        assert kept == hits


def test_likeness_is_that_of_the_vectors_or_of_the_words():
    a, b = np.array([1, 0], dtype=np.float32), np.array([0.6, 0.8], dtype=np.float32)
    likeness = likeness_of({"mem_1": a, "mem_2": b, "mem_3": -a})
    assert likeness(hit(1, "mem_1"), hit(1, "mem_2")) == np.float32(0.6)
    assert likeness(hit(1, "mem_1"), hit(1, "mem_3")) == 0
    assert likeness(hit(1, "mem_1"), hit(1, "mem_4")) == 1  # the same words
    assert likeness(hit(1, "mem_5", content="sun moon"), hit(1, "mem_6", content="moon star")) == 1 / 3
