"""What every `Embedder` must do. Subclass, give the fixture `embedder`, and every adapter is held to it."""

from __future__ import annotations

import numpy as np
import pytest
from memoryos_models.ports import Embedder
from memoryos_models.unit import unit_rows

DEADLINE_S = 30.0
ODD_TEXTS = [
    "",
    " ",
    "\u200b",
    "\x00",
    "\ud800",
    "e\u0301",
    "我们在上海开会",
    "ไทย",
    "😀",
    "a\u2028b\u0085c",
    "\u202eabc",
]


class EmbedderContract:
    """The contract; `embedder` comes from the subclass."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        """Give the adapter under test."""
        pytest.fail("the subclass gives the adapter under test")

    async def test_rows_are_unit_rounded_and_in_order(self, embedder: Embedder) -> None:
        texts = ["line A has a takt time of 42 s", "华东区的报价都按客户等级走", "unrelated words"]
        rows = await embedder.embed(texts, deadline_s=DEADLINE_S)
        assert rows.shape == (3, embedder.dimensions)
        assert rows.dtype == np.float32
        assert np.array_equal(rows, unit_rows(rows, dimensions=embedder.dimensions))
        assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=2e-3)
        again = await embedder.embed(list(reversed(texts)), deadline_s=DEADLINE_S)
        assert np.allclose(rows, again[::-1], atol=2e-3)

    async def test_equal_text_is_nearest_to_itself(self, embedder: Embedder) -> None:
        texts = ["the pump in hall 3 leaks", "invoice 17 is overdue", "the pump in hall 3 leaks"]
        rows = await embedder.embed(texts, deadline_s=DEADLINE_S)
        scores = rows @ rows[0]
        assert scores[2] == pytest.approx(1.0, abs=2e-3)
        assert scores[1] < scores[2]

    async def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        rows = await embedder.embed([], deadline_s=DEADLINE_S)
        assert rows.shape == (0, embedder.dimensions)

    async def test_every_string_has_a_vector(self, embedder: Embedder) -> None:
        rows = await embedder.embed(ODD_TEXTS, deadline_s=DEADLINE_S)
        assert np.isfinite(rows).all()
        assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=2e-3)

    async def test_a_long_text_is_answered(self, embedder: Embedder) -> None:
        rows = await embedder.embed(["上" * 33_000, "a" * 100_000], deadline_s=DEADLINE_S)
        assert rows.shape == (2, embedder.dimensions)
