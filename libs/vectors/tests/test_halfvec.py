"""Vectors on the wire: every fp16 number survives both forms."""

from __future__ import annotations

import numpy as np
from memoryos_vectors.halfvec import HalfVec, _HalfVecTextDumper, read_halfvec


def test_the_text_form_gives_every_number_back() -> None:
    numbers = np.arange(65_536, dtype=np.uint16).view(np.float16)
    finite = numbers[np.isfinite(numbers)].astype(np.float32)
    dumper = _HalfVecTextDumper(HalfVec)
    for part in np.array_split(finite, 100):
        text = bytes(dumper.dump(HalfVec(part))).decode()
        back = np.array([float(number) for number in text.strip("[]").split(",")], dtype=np.float32)
        assert np.array_equal(back.astype(np.float16).view(np.uint16), part.astype(np.float16).view(np.uint16))


def test_the_binary_form_gives_the_vector_back() -> None:
    vector = np.array([0.5, -0.25, 1.0], dtype=np.float32)
    assert np.array_equal(read_halfvec(HalfVec(vector).wire), vector)
