"""The in-memory index under the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from memoryos_testing.contracts.vector_index import MODELS, VectorIndexContract
from memoryos_vectors.adapters.memory import InMemoryVectorIndex
from memoryos_vectors.models import DIMENSIONS_MAX, IndexedModels
from memoryos_vectors.ports import VectorIndex


class TestInMemoryVectorIndex(VectorIndexContract):
    @pytest.fixture
    def index(self) -> VectorIndex:
        return InMemoryVectorIndex(MODELS)

    @pytest.fixture
    def loop_index(self) -> Iterator[tuple[asyncio.Runner, VectorIndex]]:
        with asyncio.Runner() as runner:
            yield runner, InMemoryVectorIndex(MODELS)


def test_a_model_too_long_for_the_index_is_refused_at_the_start() -> None:
    IndexedModels({"m": DIMENSIONS_MAX})
    with pytest.raises(ValueError, match="at most 1000"):
        IndexedModels({"m": 1536})
