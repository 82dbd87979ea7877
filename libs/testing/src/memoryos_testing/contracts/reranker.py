"""What every `Reranker` must do. Subclass, give the fixture `reranker`, and every adapter is held to it."""

from __future__ import annotations

import pytest
from memoryos_models.ports import Reranker

from memoryos_testing.contracts.embedder import ODD_TEXTS

DEADLINE_S = 30.0
TEXTS = ["invoice 17 is overdue", "the pump in hall 3 leaks", "三号厂房的泵漏水"]


class RerankerContract:
    """The contract; `reranker` comes from the subclass."""

    @pytest.fixture
    def reranker(self) -> Reranker:
        """Give the adapter under test."""
        pytest.fail("the subclass gives the adapter under test")

    async def test_scores_are_of_the_texts_in_their_order_and_higher_is_better(self, reranker: Reranker) -> None:
        scores = await reranker.rerank("which pump leaks in hall 3", TEXTS, deadline_s=DEADLINE_S)
        assert len(scores) == len(TEXTS)
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert max(scores) == scores[1]
        again = await reranker.rerank("which pump leaks in hall 3", TEXTS[::-1], deadline_s=DEADLINE_S)
        assert again == pytest.approx(scores[::-1], abs=1e-6)

    async def test_no_text_has_no_score(self, reranker: Reranker) -> None:
        assert await reranker.rerank("anything", [], deadline_s=DEADLINE_S) == []

    async def test_any_string_can_be_judged(self, reranker: Reranker) -> None:
        for query in ("", "\ud800", "泵"):
            scores = await reranker.rerank(query, [*ODD_TEXTS, "pump " * 10_000], deadline_s=DEADLINE_S)
            assert len(scores) == len(ODD_TEXTS) + 1
            assert all(0.0 <= score <= 1.0 for score in scores)
