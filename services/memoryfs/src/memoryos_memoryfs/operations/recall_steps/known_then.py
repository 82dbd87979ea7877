"""What was known at an earlier instant, found by words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.hits import Exactness, Hit, Recalled
from memoryos_memoryfs.domain.items import Item, State
from memoryos_memoryfs.domain.query_words import query_words
from memoryos_memoryfs.domain.ranking import Boosts
from memoryos_memoryfs.domain.word_scan import word_shares
from memoryos_memoryfs.errors import HistoryGone
from memoryos_memoryfs.operations.recall_steps.order import ordered
from memoryos_memoryfs.operations.recall_steps.query import ReadQuery, Trace
from memoryos_memoryfs.operations.recall_steps.serve import served
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Work

SCANNED_MAX: Final = 1_000
SCANNED_BYTES_MAX: Final = 1_000_000
"""Revisions, and bytes of them, that one call reads (some 0.4 s), those of the newest items; then TRUNCATED."""


async def recall_known_then(
    parts: Parts, scope: Scope, query: ReadQuery, as_of: datetime, trace: Trace | None
) -> Recalled:
    """Give what was known at `as_of` of what the caller may read today, in the words of then.

    Today's forgetting, erasure, expiry, owner, readers and sensitivity apply.
    An instant still to come is now. Raises `HistoryGone` before the history
    that reads go back to.
    """
    now = parts.clock.now()
    at = min(as_of, now)
    if now - at > timedelta(days=parts.section.history_days):
        raise HistoryGone
    async with parts.storage.transaction(scope) as work:
        known = await work.scans.known_then(query.look, at, limit=SCANNED_MAX, bytes_max=SCANNED_BYTES_MAX)
        some = await _today(work, scope, query, known.items, now)
        hits = await _hits(query, some)
        words = bool(query.has_text and query_words(query.text))
        count = len(hits) if trace is not None else query.top_k
        asked = query if words else replace(query, min_score=0.0, diversity=0.0, boosts=Boosts())
        best = await ordered(work, replace(asked, min_score=0.0), hits, at, count=count)
    if trace is not None:
        trace.ranked = best
    return Recalled(
        hits=[hit for hit in best[: query.top_k] if hit.score >= asked.min_score],
        exactness=Exactness.TRUNCATED if known.truncated else Exactness.EXACT,
    )


async def _today(work: Work, scope: Scope, query: ReadQuery, known: Sequence[Item], now: datetime) -> list[Item]:
    """Give those of `known` that may leave by what the truth says of them today, with today's labels."""
    today = await work.items.find([item.id for item in known])
    some = []
    for item in known:
        current = today.get(item.id)
        if current is None or current.state is State.FORGOTTEN or not access.readable(scope, current):
            continue
        labelled = replace(
            item,
            owner=current.owner,
            readers=current.readers,
            sensitivity=current.sensitivity,
            expire_time=current.expire_time,
        )
        if served(scope, query.look, labelled, now):
            some.append(labelled)
    return some


async def _hits(query: ReadQuery, items: Sequence[Item]) -> list[Hit]:
    """Give what holds a word of the query, best first; without words all, the newest first."""
    words = query_words(query.text)
    if not (query.has_text and words):
        return [Hit(item=item) for item in items]
    shares = await asyncio.to_thread(word_shares, [item.payload.content for item in items], words)
    hits = [Hit(item=item, score=share, lexical=share) for item, share in zip(items, shares, strict=True) if share]
    return sorted(hits, key=lambda hit: (-hit.score, hit.item.id))
