"""The reranker's step of Read: the best hits in the order of a model that reads query and text together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from memoryos_core.errors import MemoryOSError

from memoryos_memoryfs.domain.hits import Hit
from memoryos_memoryfs.parts import Reranking

_MARGIN_S = 0.25
"""Left of a call's deadline for the audit row that follows."""


async def rerank_hits(reranking: Reranking, query: str, hits: Sequence[Hit], left_s: float) -> list[Hit] | None:
    """Give the hits with the best of them in the reranker's order; None when it did not answer in time.

    It sees the texts of hits that may leave to the caller, at most `texts_max`;
    the others follow in their own order. Equal judgements keep the order of
    scores. Scores stay what they are: `min_score` has been applied before.
    """
    some, rest = list(hits[: reranking.texts_max]), list(hits[reranking.texts_max :])
    if not some:
        return rest
    budget_s = min(reranking.timeout_s, left_s - _MARGIN_S)
    if budget_s <= 0:
        return None
    texts = [hit.item.payload.content for hit in some]
    try:
        async with asyncio.timeout(budget_s):
            judged = await reranking.model.rerank(query, texts, deadline_s=budget_s)
    except (MemoryOSError, TimeoutError, OSError):
        return None
    scored = [replace(hit, rerank=score) for hit, score in zip(some, judged, strict=True)]
    return sorted(scored, key=lambda hit: -(hit.rerank or 0.0)) + rest
