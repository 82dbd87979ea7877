"""A tiny deterministic embedder for tests: texts that share words are near each other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from memoryos_models.ports import Vectors
from memoryos_models.unit import unit_rows
from numpy.typing import NDArray

_WORDS = re.compile(r"[\u3400-\u9fff]|[^\W_]+")


class HashEmbedder:
    """Sums one pseudo-random direction per word; knows nothing of meaning, answers at once."""

    def __init__(self, *, dimensions: int = 64, model_id: str | None = None) -> None:
        self._dimensions = dimensions
        self._model_id = model_id or f"hash-{dimensions}"

    @property
    def model_id(self) -> str:
        """See `Embedder.model_id`."""
        return self._model_id

    @property
    def dimensions(self) -> int:
        """See `Embedder.dimensions`."""
        return self._dimensions

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        """See `Embedder.embed`; never late."""
        rows = np.array([self._row(text) for text in texts], dtype=np.float64).reshape(len(texts), self._dimensions)
        return unit_rows(rows, dimensions=self._dimensions)

    async def close(self) -> None:
        """See `Embedder.close`; there is nothing to release."""

    def _row(self, text: str) -> NDArray[np.float64]:
        words = sorted(set(_WORDS.findall(text.lower()[:8192]))) or [text.encode("utf-8", "replace").decode()]
        row: NDArray[np.float64] = np.sum([self._direction(word) for word in words], axis=0)
        return row

    def _direction(self, word: str) -> NDArray[np.float64]:
        seed = hashlib.blake2b(f"{self._model_id}\0{word}".encode("utf-8", "replace"), digest_size=8).digest()
        return np.random.default_rng(int.from_bytes(seed)).standard_normal(self._dimensions)
