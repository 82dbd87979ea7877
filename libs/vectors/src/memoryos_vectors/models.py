"""The models that an index holds, and the checks of vectors that every adapter makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memoryos_vectors.errors import EmbeddingMismatch, VectorNotUnit
from memoryos_vectors.ports import Vector, VectorEntry

DIMENSIONS_MAX = 1_000
"""A row of PostgreSQL's covering index holds 2,704 bytes: 1,000 fp16 numbers, 65 principals and the keys fit.

Embed with a model (or a shortened output) of at most 1,000 dimensions.
"""
ACL_MAX = 65
"""The owner and 64 readers, as Write allows."""
_LENGTH_TOLERANCE = 5e-3  # fp16 rounding moves the length of a unit row by less than 1e-3


class IndexedModels:
    """Model id → length of its vectors; raises ValueError when one is too long to be indexed."""

    def __init__(self, dimensions: Mapping[str, int]) -> None:
        for model_id, length in dimensions.items():
            if not 1 <= length <= DIMENSIONS_MAX:
                raise ValueError(
                    f"model {model_id} has {length} dimensions; the vector index holds at most {DIMENSIONS_MAX}"
                )
        self._dimensions = MappingProxyType(dict(dimensions))

    @property
    def dimensions(self) -> Mapping[str, int]:
        """Length of the vectors of each model."""
        return self._dimensions

    def check(self, model_id: str, vectors: Sequence[Vector]) -> NDArray[np.float32]:
        """Give the vectors as one matrix, or raise `EmbeddingMismatch` or `VectorNotUnit`."""
        length = self._dimensions.get(model_id)
        if length is None:
            raise EmbeddingMismatch(
                "the index holds no vectors of this model", metadata={"models": ", ".join(self._dimensions)}
            )
        if any(vector.shape != (length,) for vector in vectors):
            raise EmbeddingMismatch(
                f"vectors of this model have {length} numbers", metadata={"dimensions": str(length)}
            )
        matrix: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32).reshape(len(vectors), length)
        norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))  # half of what numpy.linalg takes
        if not bool((np.abs(norms - 1.0) < _LENGTH_TOLERANCE).all()):  # also false for NaN
            raise VectorNotUnit
        return matrix


def newest(entries: Sequence[VectorEntry]) -> list[VectorEntry]:
    """Give one entry per item: that of the highest revision, the later of equals."""
    kept: dict[str, VectorEntry] = {}
    for entry in entries:
        old = kept.get(entry.item_id)
        if old is None or old.revision <= entry.revision:
            kept[entry.item_id] = entry
    return list(kept.values())
