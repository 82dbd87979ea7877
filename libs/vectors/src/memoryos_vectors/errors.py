"""Errors of VectorIndex."""

from __future__ import annotations

from memoryos_core.errors import Code, DependencyUnavailable, InternalError, InvalidField, MemoryOSError


class EmbeddingMismatch(MemoryOSError):
    """The vector is of another model or length than the index holds."""

    code = Code.FAILED_PRECONDITION
    reason = "EMBEDDING_MISMATCH"


class VectorNotUnit(InvalidField):
    """The vector is not of length 1, or not finite: it did not pass unit_rows."""

    reason = "EMBEDDING_MISMATCH"


class IndexUnavailable(DependencyUnavailable):
    """The derived index does not answer in time; what was sent may still be carried out."""


class IndexRefused(InternalError):
    """The derived index answers, and refuses this request: repeating it does not help."""


class IndexAbsent(IndexUnavailable):
    """The derived index answers, but holds no collection of this model: it was lost, or never made."""
