"""The vectors of a call: given by the caller and checked, or made by the embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from memoryos_core.errors import MemoryOSError
from memoryos_models.errors import EmbedderBusy, ModelUnavailable, VectorUnusable
from memoryos_models.ports import Embedder
from memoryos_models.unit import unit_rows
from memoryos_vectors.ports import Vector
from numpy.typing import NDArray

from memoryos_memoryfs.domain.drafts import Draft
from memoryos_memoryfs.errors import EmbeddingMismatch
from memoryos_memoryfs.parts import Parts

_MARGIN_S = 0.25
"""Left of a call's deadline for the transaction that follows."""
_LENGTH_OFF = 1e-2
"""How far the square of a vector's length may be from 1."""


def given_vectors(
    parts: Parts, models: Sequence[str], rows: Sequence[Sequence[float] | NDArray[np.float32]]
) -> list[Vector]:
    """Give vectors that callers made, normalised; raises EmbeddingMismatch for another space than the index's."""
    embedder = parts.embedder
    for model, row in zip(models, rows, strict=True):
        if model != embedder.model_id or len(row) != embedder.dimensions:
            raise EmbeddingMismatch(
                metadata={"model": embedder.model_id, "dimensions": str(embedder.dimensions), "given": model[:128]}
            )
    try:
        return list(unit_rows([np.asarray(row) for row in rows], dimensions=embedder.dimensions)) if rows else []
    except VectorUnusable as error:
        raise EmbeddingMismatch(error.message) from None


async def embed_texts(parts: Parts, texts: Sequence[str], deadline_s: float) -> list[Vector] | None:
    """Give one vector per text, or None when the embedder is down.

    Raises `EmbedderBusy` when it is up but has no time for this call: an
    overload is passed on to the caller, never turned into a growing queue.
    """
    if not texts:
        return []
    budget_s = min(parts.section.embed_timeout_s, deadline_s - _MARGIN_S)
    if budget_s <= 0:
        raise EmbedderBusy("The call's deadline leaves no time to embed.", retry_after_s=1.0)
    try:
        return await vectors_of(parts.embedder, texts, budget_s)
    except EmbedderBusy:
        raise
    except (MemoryOSError, OSError):
        return None


async def vectors_of(embedder: Embedder, texts: Sequence[str], deadline_s: float) -> list[Vector]:
    """Give one vector of the model's space per text, in time, or raise: an answer of another shape is an outage."""
    try:
        async with asyncio.timeout(deadline_s):
            rows = list(await embedder.embed(texts, deadline_s=deadline_s))
    except TimeoutError:
        raise ModelUnavailable from None
    space = (embedder.dimensions,)
    # The index refuses what is not of length 1. NaN is refused, too: no comparison with it is true.
    with np.errstate(over="ignore"):
        right = all(row.shape == space and abs(row @ row - 1) < _LENGTH_OFF for row in rows)
    if len(rows) != len(texts) or not right:
        raise ModelUnavailable
    return rows


async def embed_drafts(parts: Parts, drafts: Sequence[Draft], deadline_s: float) -> list[Vector | None]:
    """Give a vector per draft; None where it is to stay as it is, or where the embedder is down."""
    vectors: list[Vector | None] = [None] * len(drafts)
    given = [n for n, draft in enumerate(drafts) if draft.embedding is not None]
    asked_rows = [row for draft in drafts if (row := draft.embedding) is not None]
    rows = given_vectors(parts, [drafts[n].embedding_model for n in given], asked_rows)
    for n, vector in zip(given, rows, strict=True):
        vectors[n] = vector
    asked = [n for n, draft in enumerate(drafts) if draft.embedding is None and draft.sets("content")]
    made = await embed_texts(parts, [drafts[n].content for n in asked], deadline_s)
    if made is not None:
        for n, vector in zip(asked, made, strict=True):
            vectors[n] = vector
    return vectors
