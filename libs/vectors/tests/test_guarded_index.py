"""Deadlines and breaker around a derived index."""

from __future__ import annotations

import pytest
from memoryos_testing.contracts.vector_index import MODEL, MODELS, TENANT, X, ask, entry, ids
from memoryos_testing.faulty_index import FaultyIndex
from memoryos_vectors.adapters.guarded import GuardedIndex
from memoryos_vectors.adapters.qdrant import connect
from memoryos_vectors.breaker import FAILURES_MAX, Breaker
from memoryos_vectors.errors import IndexAbsent, IndexUnavailable


class Now:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_dead_index_is_asked_a_few_times_and_found_again() -> None:
    now = Now()
    faulty = FaultyIndex(connect(":memory:", MODELS))
    index = GuardedIndex(faulty, Breaker(pause_s=1, monotonic=now), search_s=5, write_s=5)
    await index.create()
    await index.upsert(TENANT, MODEL, [entry("a", X)])
    faulty.down = True
    for _ in range(50):
        with pytest.raises(IndexUnavailable):
            await ask(index, X)
    assert faulty.searches == FAILURES_MAX
    assert not index.breaker.closed
    for pause in (1, 2, 4):  # each try that fails doubles the pause
        now.seconds += pause
        for _ in range(3):
            with pytest.raises(IndexUnavailable):
                await ask(index, X)
    assert faulty.searches == FAILURES_MAX + 3
    faulty.down = False
    now.seconds += 8
    assert ids(await ask(index, X)) == ["a"]
    assert index.breaker.closed


async def test_a_slow_index_ends_at_its_deadline() -> None:
    faulty = FaultyIndex(connect(":memory:", MODELS))
    index = GuardedIndex(faulty, Breaker(), search_s=0.01, write_s=5)
    await index.create()
    faulty.slow_s = 30
    with pytest.raises(IndexUnavailable):
        await ask(index, X)


async def test_one_that_answers_with_a_refusal_is_not_dead() -> None:
    index = GuardedIndex(connect(":memory:", MODELS), Breaker(), search_s=5, write_s=5)
    for _ in range(10):
        with pytest.raises(IndexAbsent):
            await ask(index, X)
    assert index.breaker.closed
