"""One score from two arms: its scale, its order, and what happens when an arm is missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memoryos_core.search_words import query_tokens, text_tokens
from memoryos_memoryfs.domain.fusion import Corpus, fuse, lexical_shares, own_shares


def shares_of(query: str, items: list[str]) -> np.ndarray:
    words = query_tokens(query)
    held = [text_tokens(item) for item in items]
    lengths = np.array([sum(tokens.values()) for tokens in held], dtype=np.int64)
    counts = np.array([[tokens.get(word, 0) for word in words] for tokens in held], dtype=np.int64)
    corpus = Corpus(item_count=len(items), length_mean=float(lengths.mean()))
    return lexical_shares(corpus, np.array(list(words.values()), dtype=np.int64), counts, lengths)


ITEMS = [
    "The takt time of line A is 42 seconds",
    "Line B stands still until the motor WR-1024 is replaced",
    "以后华东区的报价都按客户等级走，VIP 客户先走特批流",
    "Invoice 17 of customer A is overdue",
]


@pytest.mark.parametrize("position", range(len(ITEMS)))
def test_an_identical_text_is_one_and_the_best(position: int) -> None:
    shares = shares_of(ITEMS[position], ITEMS)
    assert shares[position] == pytest.approx(1.0)
    assert np.argmax(shares) == position
    best = fuse({str(i): 1.0 if i == position else 0.4 for i in range(4)}, {str(i): s for i, s in enumerate(shares)})[0]
    assert (best.id, best.score) == (str(position), pytest.approx(1.0))


def test_an_identifier_finds_its_item_alone() -> None:
    shares = shares_of("wr-1024", ITEMS)
    assert np.flatnonzero(shares).tolist() == [1]


def test_rare_words_count_more_than_common_ones() -> None:
    items = ["pump one", "pump two", "pump three", "valve leaks"]
    shares = shares_of("pump valve", items)
    assert np.argmax(shares) == 3


def test_common_words_never_count_against_an_item() -> None:
    assert (shares_of("pump", ["pump"] * 5) > 0).all()


def test_no_word_and_no_item_are_no_share() -> None:
    corpus = Corpus(item_count=0, length_mean=0.0)
    none = np.zeros(0, dtype=np.int64)
    assert lexical_shares(corpus, none, np.zeros((2, 0), dtype=np.int64), np.ones(2, dtype=np.int64)).tolist() == [0, 0]
    assert lexical_shares(corpus, np.ones(1, dtype=np.int64), np.zeros((0, 1), dtype=np.int64), none).shape == (0,)


def test_an_item_without_a_vector_is_found_by_its_words() -> None:
    ranked = fuse({"a": 0.5}, {"fresh": 0.9, "a": 0.2})
    assert [(one.id, one.dense) for one in ranked] == [("fresh", None), ("a", 0.5)]
    assert ranked[0].score == pytest.approx(0.9)


def test_a_missing_arm_leaves_the_other_whole() -> None:
    assert [(one.id, one.score) for one in fuse({"a": 0.5, "b": -0.3}, None)] == [("a", 0.5), ("b", 0.0)]
    assert [(one.id, one.score, one.dense) for one in fuse(None, {"a": 0.5})] == [("a", 0.5, None)]
    assert fuse(None, None) == []


def test_equal_scores_go_by_id() -> None:
    assert [one.id for one in fuse({"c": 0.5, "a": 0.5, "b": 0.5}, {})] == ["a", "b", "c"]
    assert [one.id for one in fuse({"a": -0.5, "b": -0.1}, None)] == ["b", "a"]


_SCORES = st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.floats(0, 1), max_size=12)


@given(_SCORES, _SCORES)
def test_the_order_is_that_of_scores_between_zero_and_one(dense: dict[str, float], lexical: dict[str, float]) -> None:
    ranked = fuse(dense, lexical)
    order = [(-one.score, -(one.dense or 0.0), one.id) for one in ranked]
    assert order == sorted(order)
    assert all(0.0 <= one.score <= 1.0 for one in ranked)
    assert {one.id for one in ranked} == set(dense) | set(lexical)
    # More of either arm never lowers a candidate.
    for one in ranked:
        if one.id in dense and one.id in lexical:
            better = {**lexical, one.id: 1.0}
            assert next(other.score for other in fuse(dense, better) if other.id == one.id) >= one.score


def test_the_words_beside_an_item_add_a_part_of_their_own() -> None:
    alone = {one.id: one for one in fuse({"a": 0.4, "b": 0.4}, {"a": 0.2})}
    ranked = {one.id: one for one in fuse({"a": 0.4, "b": 0.4}, {"a": 0.2}, {"b": 0.8})}
    assert ranked["a"] == alone["a"]
    assert ranked["b"].score == pytest.approx(0.5 * 0.4 + 0.5 * 0.25 * 0.8)
    assert ranked["b"].beside == pytest.approx(ranked["b"].score - alone["b"].score)
    assert ranked["b"].lexical == 0.0
    assert fuse({"a": 0.4}, None, {"a": 1.0})[0].score == 0.4


@example(1.0, 3.6e-306, 0.0, 3.6e-306)  # 1 - (1 - share) is less than so small a share
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_more_words_beside_an_item_never_lower_its_score(dense: float, share: float, less: float, more: float) -> None:
    less, more = sorted((less, more))
    lower, higher = (fuse({"a": dense}, {"a": share}, {"a": beside})[0] for beside in (less, more))
    assert 0.0 <= lower.score <= higher.score <= 1.0
    assert lower.beside <= higher.beside + 1e-12
    assert fuse({"a": 1.0}, {"a": 1.0}, {"a": more})[0].score == 1.0


def test_the_last_message_of_a_conversation_counts_beside_the_whole() -> None:
    whole, last = np.array([0.2, 0.2, 1.0]), np.array([0.6, 0.0, 0.3])
    assert own_shares(whole, None).tolist() == whole.tolist()
    assert own_shares(whole, last).tolist() == pytest.approx([1 - 0.8 * 0.7, 0.2, 1.0])
