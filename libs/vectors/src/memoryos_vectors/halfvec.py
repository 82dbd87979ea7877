"""pgvector's halfvec on the wire, without asking the server for its type number.

Binary form (halfvec_send): int16 length, int16 zero, then that many big-endian
fp16. Text form: [1,0.5,…]; five digits give every fp16 number back exactly.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from memoryos_vectors.ports import Vector


class HalfVec:
    """A vector as a parameter of type halfvec; its cast in the statement tells the server the type."""

    __slots__ = ("wire",)

    def __init__(self, vector: Vector) -> None:
        self.wire = struct.pack(">hh", vector.shape[0], 0) + vector.astype(">f2").tobytes()


def halfvec_fields(matrix: NDArray[np.float32]) -> list[bytes]:
    """Give each row as a field of a binary COPY: length and wire form."""
    count, length = matrix.shape
    rows = np.zeros(count, dtype=[("bytes", ">i4"), ("length", ">i2"), ("zero", ">i2"), ("numbers", ">f2", (length,))])
    rows["bytes"], rows["length"], rows["numbers"] = 4 + 2 * length, length, matrix
    wire, size = rows.tobytes(), rows.itemsize
    return [wire[start : start + size] for start in range(0, len(wire), size)]


class _HalfVecDumper(Dumper):
    format = Format.BINARY
    oid = 0  # unknown: taken from the cast, or from the column in a COPY

    def dump(self, obj: Any) -> Buffer:
        wire: bytes = obj.wire
        return wire


class _HalfVecTextDumper(Dumper):
    """For statements that travel as text, together with COMMIT."""

    format = Format.TEXT
    oid = 0

    def dump(self, obj: Any) -> Buffer:
        patterns = np.frombuffer(obj.wire, dtype=">u2", offset=4).tolist()
        return ("[" + ",".join(map(_texts().__getitem__, patterns)) + "]").encode()


@cache
def _texts() -> list[str]:
    """Give the text of each of the 65,536 fp16 numbers, by its bits: looking up is five times faster than printing."""
    numbers = np.arange(65_536, dtype=np.uint16).view(np.float16)
    return [f"{number:.5g}" for number in numbers.tolist()]


def read_halfvec(wire: bytes) -> Vector:
    """Give the vector of a halfvec column fetched in binary."""
    vector: Vector = np.frombuffer(wire, dtype=">f2", offset=4).astype(np.float32)
    return vector


# Connections copy the global map when they are made; every pool is opened after its imports.
psycopg.adapters.register_dumper(HalfVec, _HalfVecTextDumper)
psycopg.adapters.register_dumper(HalfVec, _HalfVecDumper)
