"""Recall by meaning and by words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
from memoryos_core.scope import Scope
from memoryos_models.unit import unit_rows
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain.fusion import Fused, conversation_vector
from memoryos_memoryfs.domain.hits import Degradation, Recalled
from memoryos_memoryfs.domain.query_words import last_message, query_words
from memoryos_memoryfs.operations.embed_texts import embed_texts, given_vectors
from memoryos_memoryfs.operations.recall_steps.candidates import Asked, Candidates, candidates_of, with_superseded
from memoryos_memoryfs.operations.recall_steps.order import ordered
from memoryos_memoryfs.operations.recall_steps.query import ReadQuery, Trace
from memoryos_memoryfs.operations.recall_steps.serve import Served, serve
from memoryos_memoryfs.operations.rerank_hits import rerank_hits
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Within, Work

_POOL_FACTOR: Final = 4
_POOL_MIN: Final = 50
"""Served candidates that boosts and diversity choose among: four times what is asked for, at least so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One Read under way, in its transaction."""

    work: Work
    scope: Scope
    query: ReadQuery
    asked: Asked
    pool: int
    now: datetime


async def recall_by_meaning(parts: Parts, scope: Scope, query: ReadQuery, trace: Trace | None) -> Recalled:
    """Give the items that answer the query best, by both arms; see `read_items`."""
    clock = asyncio.get_running_loop().time
    ends_at = clock() + query.deadline_s
    vector = await _query_vector(parts, query)
    reranking = parts.reranking if query.rerank is not False and query.has_text else None
    pool = max(query.top_k, reranking.texts_max) if reranking else query.top_k
    if query.boosts or query.diversity:
        pool = max(pool, _POOL_FACTOR * query.top_k, _POOL_MIN)
    depth = max(parts.section.recall_depth, 2 * pool)
    asked = Asked(vector=vector, words=query_words(query.text), depth=depth)
    async with parts.storage.transaction(scope) as work:
        run = _Run(work=work, scope=scope, query=query, asked=asked, pool=pool, now=parts.clock.now())
        within = await work.index.within(query.look)
        found, some = await _found(run, within)
        if len(some.hits) < query.top_k and some.refused_count and not found.whole and query.look.plain:
            # Index rows that the truth does not serve (expired, above the clearance) took places:
            # look once more, among exactly what may be served.
            found, some = await _found(run, await work.index.readable(query.look))
        hits = await ordered(work, query, some.hits, run.now, count=pool if reranking else query.top_k)
        if trace is not None:
            await _trace(run, within, found, some, trace)
    judged = await rerank_hits(reranking, query.text, hits, ends_at - clock()) if reranking else None
    degradations = {
        Degradation.NO_DENSE: vector is None,
        Degradation.PENDING_VECTORS: within.pending or found.unvectored,
        Degradation.INDEX_FALLBACK: found.fallback,
        Degradation.RERANK_SKIPPED: judged is None and bool(reranking or query.rerank),
    }
    return Recalled(
        hits=(hits if judged is None else judged)[: query.top_k],
        exactness=found.exactness,
        degradations=tuple(part for part, missing in degradations.items() if missing),
    )


async def _query_vector(parts: Parts, query: ReadQuery) -> Vector | None:
    if query.embedding is not None:
        return given_vectors(parts, [query.embedding_model], [query.embedding])[0]
    last = last_message(query.text)
    vectors = await embed_texts(parts, [query.text, last] if last else [query.text], query.deadline_s)
    if vectors is None or not last:
        return None if vectors is None else vectors[0]
    whole, end = (vector.astype(np.float64) for vector in vectors)
    direction: Vector = unit_rows(conversation_vector(whole, end), dimensions=parts.embedder.dimensions)[0]
    return direction


async def _found(run: _Run, within: Within) -> tuple[Candidates, Served]:
    """Give the candidates among `within`, and those of the best `pool` that may leave."""
    query = run.query
    found = await candidates_of(run.work, within, run.asked)
    if query.valid_at is not None:
        found = await with_superseded(run.work, query.look, run.asked, found)
    # A boost may lift a score: then the least score is asked of the lifted one.
    least = 0.0 if query.boosts else query.min_score
    wanted = [candidate for candidate in found.ranked if candidate.score >= least]
    return found, await _served(run, wanted, run.pool)


async def _served(run: _Run, candidates: Sequence[Fused], count: int) -> Served:
    return await serve(run.work, run.scope, run.query.look, candidates, count=max(1, count), now=run.now)


async def _trace(run: _Run, within: Within, found: Candidates, some: Served, trace: Trace) -> None:
    """Keep what else was there: all that could be served in its order, and scores of what no arm named."""
    every = await _served(run, found.ranked, len(found.ranked))
    all_of_them = replace(run.query, min_score=0.0)
    first = await ordered(run.work, all_of_them, some.hits, run.now, count=len(some.hits))
    known = {hit.item.id for hit in first}
    others = [hit for hit in every.hits if hit.item.id not in known]
    alone = replace(all_of_them, diversity=0.0)
    trace.ranked = [*first, *await ordered(run.work, alone, others, run.now, count=len(others))]
    named = await candidates_of(run.work, within, run.asked, trace.expected)
    more = await _served(run, named.extra, len(named.extra))
    lifted = await ordered(run.work, alone, more.hits, run.now, count=len(more.hits))
    trace.scored = {hit.item.id: hit for hit in lifted}
