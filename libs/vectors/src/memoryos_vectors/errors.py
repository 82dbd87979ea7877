"""Errors of VectorIndex."""

from __future__ import annotations

from memoryos_core.errors import Code, InvalidField, MemoryOSError


class EmbeddingMismatch(MemoryOSError):
    """The vector is of another model or length than the index holds."""

    code = Code.FAILED_PRECONDITION
    reason = "EMBEDDING_MISMATCH"


class VectorNotUnit(InvalidField):
    """The vector is not of length 1, or not finite: it did not pass unit_rows."""

    reason = "EMBEDDING_MISMATCH"
