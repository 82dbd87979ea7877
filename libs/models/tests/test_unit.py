"""Normalising and rounding, once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memoryos_models.errors import VectorUnusable
from memoryos_models.unit import unit_rows


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_any_finite_vector_becomes_one_of_length_one_or_is_refused(values: list[float]) -> None:
    if not any(values):
        with pytest.raises(VectorUnusable):
            unit_rows(values, dimensions=4)
        return
    rows = unit_rows(values, dimensions=4)
    assert np.linalg.norm(rows[0]) == pytest.approx(1.0, abs=2e-3)
    assert np.array_equal(rows, rows.astype(np.float16).astype(np.float32))


@given(st.lists(st.floats(-1, 1), min_size=8, max_size=8).filter(lambda v: max(map(abs, v)) > 0.01))
def test_a_rounded_vector_stays_as_it_is(values: list[float]) -> None:
    rows = unit_rows(values, dimensions=8)
    assert np.allclose(unit_rows(rows, dimensions=8), rows, atol=1e-3)


@pytest.mark.parametrize("bad", [[1.0, float("nan")], [1.0, float("inf")], [0.0, 0.0], [1.0], [1.0, 2.0, 3.0], ["x"]])
def test_unusable_vectors_are_refused(bad: list) -> None:
    with pytest.raises(VectorUnusable):
        unit_rows(bad, dimensions=2)


def test_no_vectors_are_no_rows() -> None:
    assert unit_rows([], dimensions=4).shape == (0, 4)
