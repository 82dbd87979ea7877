"""The one place where vectors are normalised and rounded, before any index sees them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from memoryos_models.errors import VectorUnusable
from memoryos_models.ports import Vectors


def unit_rows(rows: ArrayLike, *, dimensions: int) -> Vectors:
    """Give the rows scaled to length 1 and rounded to fp16, as float32.

    Rounding once here makes every index (fp16 storage or float32 memory) see
    the same numbers, so their scores agree to float32 arithmetic. A rounded
    row is given back unchanged: its length is already 1 within 2^-10.
    Raises `VectorUnusable` for NaN, infinities, zero rows or another length.
    """
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise VectorUnusable("vector is not a list of numbers") from error
    if matrix.ndim == 1:
        matrix = matrix.reshape(1, -1) if matrix.size else matrix.reshape(0, dimensions)
    if matrix.ndim != 2 or matrix.shape[1] != dimensions:
        raise VectorUnusable(f"vector must have {dimensions} numbers", metadata={"dimensions": str(dimensions)})
    # Scale by the largest entry first: squares of huge or tiny numbers overflow or vanish.
    peak = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    if not np.isfinite(peak).all():  # NaN and infinities come out as the largest
        raise VectorUnusable("vector holds a number that is not finite")
    if (peak == 0.0).any():
        raise VectorUnusable("vector is zero")
    scaled = matrix / peak
    scaled /= np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, np.newaxis]
    rounded: Vectors = scaled.astype(np.float16).astype(np.float32)
    return rounded
