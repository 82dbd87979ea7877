"""Both arms of recall, and what was superseded, as one list of candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain.fusion import Fused, fuse
from memoryos_memoryfs.domain.hits import Exactness
from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.domain.query_words import QueryWords
from memoryos_memoryfs.domain.word_scan import word_shares
from memoryos_memoryfs.ports.storage import Look, Within, Work

SUPERSEDED_MAX: Final = 500
SUPERSEDED_BYTES_MAX: Final = 500_000
"""Superseded items, and bytes of them, that one `valid_at` compares (some 0.2 s), the newest; then TRUNCATED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What both arms are asked for."""

    vector: Vector | None
    words: QueryWords
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What was found among one set of items."""

    ranked: list[Fused]
    """Best first; worthless until they are read again."""
    extra: list[Fused]
    """Items that were named beside them and are none of them."""
    exactness: Exactness
    whole: bool
    """No further candidate exists."""
    unvectored: bool
    """An item that holds the words has no vector of this model: others may lack theirs, too."""
    fallback: bool
    """PostgreSQL compared the vectors in the place of the configured index."""


async def candidates_of(work: Work, within: Within, asked: Asked, named: Iterable[str] = ()) -> Candidates:
    """Give the candidates of both arms; those `named` are scored, too, and change nothing else."""
    extra = sorted(named)
    words = await work.index.lexical(within, asked.words, asked.depth)
    exactness = Exactness.TRUNCATED if words.truncated or within.truncated else Exactness.EXACT
    whole = len(words.best) == len(words.shares)
    found = set(words.best)
    dense, fallback = None, False
    if asked.vector is not None:
        wanted = tuple(dict.fromkeys((*words.best, *extra)))
        near = await work.index.dense(within, asked.vector, asked.depth, named=wanted)
        dense, fallback = {**near.asked, **near.scores}, near.fallback
        found.update(near.scores)
        whole = whole and near.compared_count == len(near.scores)
        if not near.exact and exactness is Exactness.EXACT:
            exactness = Exactness.APPROXIMATE
    beyond = {
        item_id
        for item_id in extra
        if item_id not in found and ((dense and item_id in dense) or item_id in words.shares)
    }
    around = await work.index.neighbours(within, sorted(found | beyond)) if words.shares else {}
    beside = {item_id: max(words.shares.get(turn, 0.0) for turn in turns) for item_id, turns in around.items()}

    def fused(ids: set[str]) -> list[Fused]:
        cosines = None if dense is None else {item_id: dense[item_id] for item_id in ids if item_id in dense}
        shares = {item_id: words.shares.get(item_id, 0.0) for item_id in ids} if asked.words else None
        return fuse(cosines, shares, beside)

    return Candidates(
        ranked=fused(found),
        extra=fused(beyond),
        exactness=exactness,
        whole=whole,
        unvectored=dense is not None and not dense.keys() >= set(words.best),
        fallback=fallback,
    )


async def with_superseded(work: Work, look: Look, asked: Asked, found: Candidates) -> Candidates:
    """Add what was superseded and held at the instant asked for: in no index, so compared one by one."""
    replaced = replace(look, states=(State.SUPERSEDED,))
    items = await work.items.newest(replaced, before=None, limit=SUPERSEDED_MAX + 1)
    kept = _within_bytes(items[:SUPERSEDED_MAX])
    truncated = len(items) > len(kept)
    items = kept
    if not items:
        return found
    shares = None
    if asked.words:
        texts = [item.payload.content for item in items]
        shares = dict(
            zip([item.id for item in items], await asyncio.to_thread(word_shares, texts, asked.words), strict=True)
        )
    dense = None
    if asked.vector is not None:
        vectors = await work.scans.vectors([item.id for item in items])
        dense = {item_id: max(-1.0, min(1.0, float(vector @ asked.vector))) for item_id, vector in vectors.items()}
    more = [one for one in fuse(dense, shares) if one.dense is not None or one.lexical]
    ranked = sorted((*found.ranked, *more), key=lambda one: (-one.score, -(one.dense or 0.0), one.id))
    exactness = Exactness.TRUNCATED if truncated else found.exactness
    return replace(found, ranked=ranked, exactness=exactness)


def _within_bytes(items: list[Item]) -> list[Item]:
    """Give the first items until their contents have SUPERSEDED_BYTES_MAX bytes; at least one."""
    size_bytes = 0
    for count, item in enumerate(items):
        if size_bytes >= SUPERSEDED_BYTES_MAX:
            return items[:count]
        size_bytes += len(item.payload.content.encode())
    return items
