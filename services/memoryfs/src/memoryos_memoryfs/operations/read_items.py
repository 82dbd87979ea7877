"""Read: recall by meaning and by words, or the newest items without a query."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_models.unit import unit_rows

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.answers import fitting
from memoryos_memoryfs.domain.filters import Filter
from memoryos_memoryfs.domain.fusion import Fused, conversation_vector, fuse
from memoryos_memoryfs.domain.hits import Hit
from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.domain.query_words import QueryWords, last_message, query_words
from memoryos_memoryfs.operations.embed_texts import embed_texts, given_vectors
from memoryos_memoryfs.operations.rerank_hits import rerank_hits
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports import Look, Vector, Within, Work

_RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Read"
TOP_K_DEFAULT: Final = 10
_INVISIBLE: Final = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))
"""Characters without width, which str.strip leaves: a query of nothing else asks for nothing."""


class Exactness(IntEnum):
    """Whether an answer is the best there is; numbers of the proto."""

    EXACT = 1
    APPROXIMATE = 2
    TRUNCATED = 3


class Degradation(IntEnum):
    """A part of recall that did not take part; numbers of the proto."""

    NO_DENSE = 1
    PENDING_VECTORS = 2
    INDEX_FALLBACK = 3
    RERANK_SKIPPED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuery:
    """A parsed Read."""

    path: MemoryPath
    text: str
    top_k: int
    where: Filter
    min_score: float | None
    embedding_model: str
    embedding: Sequence[float] | None
    deadline_s: float
    rerank: bool | None = None
    """Whether the reranker is asked; None: where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The answer of a Read."""

    hits: list[Hit]
    exactness: Exactness
    degradations: tuple[Degradation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What both arms are asked for."""

    vector: Vector | None
    words: QueryWords
    depth: int
    top_k: int
    min_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranking:
    """What both arms found among one set of items."""

    hits: list[Hit]
    exactness: Exactness
    whole: bool
    """No further candidate exists."""
    unvectored: bool
    """An item that holds the words has no vector of this model: others may lack theirs, too."""
    fallback: bool
    """PostgreSQL compared the vectors in the place of the configured index."""


async def read_items(parts: Parts, scope: Scope, query: ReadQuery) -> Recalled:
    """Give the items that answer the query best; its audit row is committed before anything is given.

    Both arms look only at what the caller may read, and every hit is read
    again from the truth. Asking for k where k are readable gives k, unless
    `min_score` forbids or they are too large for one answer (TRUNCATED). A
    query of white space asks for the newest items.
    """
    access.check_read(scope, query.path)
    top_k = query.top_k or TOP_K_DEFAULT
    if query.text.translate(_INVISIBLE).strip() or query.embedding is not None:
        recalled = await _recall(parts, scope, query, top_k)
    else:
        recalled = await _newest(parts, scope, query, top_k)
    fits = fitting([hit.item for hit in recalled.hits])
    if fits < len(recalled.hits):
        recalled = replace(recalled, hits=recalled.hits[:fits], exactness=Exactness.TRUNCATED)
    ids = [hit.item.id for hit in recalled.hits]
    await parts.trail.record(_RPC, scope, query.path, ids)
    parts.hits.note(scope.tenant, ids)
    return recalled


async def _newest(parts: Parts, scope: Scope, query: ReadQuery, top_k: int) -> Recalled:
    async with parts.storage.transaction(scope) as work:
        look = Look(paths=(query.path,), where=query.where)
        items = await work.items.newest(look, before=None, limit=top_k)
    hits = [Hit(item=item) for item in items if _served(parts, scope, query.path, item)]
    return Recalled(hits=hits, exactness=Exactness.EXACT)


async def _recall(parts: Parts, scope: Scope, query: ReadQuery, top_k: int) -> Recalled:
    ends_at = asyncio.get_running_loop().time() + query.deadline_s
    vector = await _query_vector(parts, query)
    reranking = parts.reranking if query.rerank is not False and query.text.strip() else None
    pool = max(top_k, reranking.texts_max) if reranking else top_k
    asked = _Asked(
        vector=vector,
        words=query_words(query.text),
        depth=max(parts.section.recall_depth, 2 * pool),
        top_k=pool,
        min_score=query.min_score or 0.0,
    )
    async with parts.storage.transaction(scope) as work:
        look = Look(paths=(query.path,), where=query.where)
        within = await work.index.within(look)
        ranking = await _ranked(parts, work, query.path, within, asked)
        if len(ranking.hits) < top_k and not ranking.whole:
            # Index rows that the truth does not serve (expired, above the clearance) took places:
            # look once more, among exactly what may be served.
            exact = await work.index.readable(look)
            ranking = await _ranked(parts, work, query.path, exact, asked)
    hits, degradations = ranking.hits, []
    if vector is None:
        degradations.append(Degradation.NO_DENSE)
    if within.pending or ranking.unvectored:
        degradations.append(Degradation.PENDING_VECTORS)
    if ranking.fallback:
        degradations.append(Degradation.INDEX_FALLBACK)
    judged = None
    if reranking:
        judged = await rerank_hits(reranking, query.text, hits, ends_at - asyncio.get_running_loop().time())
    if judged is None and (reranking or query.rerank):
        degradations.append(Degradation.RERANK_SKIPPED)
    return Recalled(hits=(judged or hits)[:top_k], exactness=ranking.exactness, degradations=tuple(degradations))


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


async def _ranked(parts: Parts, work: Work, path: MemoryPath, within: Within, asked: _Asked) -> _Ranking:
    """Give the hits among `within`, and what is to be said of them."""
    words = await work.index.lexical(within, asked.words, asked.depth)
    exactness = Exactness.TRUNCATED if words.truncated or within.truncated else Exactness.EXACT
    whole = len(words.best) == len(words.shares)
    candidates = set(words.best)
    dense, fallback = None, False
    if asked.vector is not None:
        near = await work.index.dense(within, asked.vector, asked.depth, named=words.best)
        dense, fallback = {**near.asked, **near.scores}, near.fallback
        candidates.update(dense)
        whole = whole and near.compared_count == len(near.scores)
        if not near.exact and exactness is Exactness.EXACT:
            exactness = Exactness.APPROXIMATE
    lexical = {item_id: words.shares.get(item_id, 0.0) for item_id in candidates} if asked.words else None
    around = await work.index.neighbours(within, sorted(candidates)) if words.shares else {}
    beside = {item_id: max(words.shares.get(turn, 0.0) for turn in turns) for item_id, turns in around.items()}
    return _Ranking(
        hits=await _served_hits(parts, work, path, within.scope, fuse(dense, lexical, beside), asked),
        exactness=exactness,
        whole=whole,
        unvectored=dense is not None and not dense.keys() >= set(words.best),
        fallback=fallback,
    )


async def _served_hits(
    parts: Parts, work: Work, path: MemoryPath, scope: Scope, candidates: Sequence[Fused], asked: _Asked
) -> list[Hit]:
    """Read candidates again from the truth, best first, until `top_k` of them may be served."""
    hits: list[Hit] = []
    wanted = [candidate for candidate in candidates if candidate.score >= asked.min_score]
    for start in range(0, len(wanted), asked.top_k):
        some = wanted[start : start + asked.top_k]
        found = await work.items.find([candidate.id for candidate in some])
        for candidate in some:
            item = found.get(candidate.id)
            if item is not None and _served(parts, scope, path, item):
                hits.append(
                    Hit(
                        item=item,
                        score=candidate.score,
                        dense=candidate.dense,
                        lexical=candidate.lexical,
                        beside=candidate.beside,
                    )
                )
        if len(hits) >= asked.top_k:
            break
    return hits[: asked.top_k]


def _served(parts: Parts, scope: Scope, path: MemoryPath, item: Item) -> bool:
    """Tell, by the truth alone, whether this item may leave: state, expiry, place, ACL, clearance, ceiling."""
    return (
        item.state is State.ACTIVE
        and not item.expired(parts.clock.now())
        and path.contains(item.path)
        and access.readable(scope, item)
    )
