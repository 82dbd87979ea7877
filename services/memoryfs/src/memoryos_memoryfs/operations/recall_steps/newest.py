"""Without a query: the newest items."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_memoryfs.domain.hits import Exactness, Hit, Recalled
from memoryos_memoryfs.operations.recall_steps.query import ReadQuery
from memoryos_memoryfs.operations.recall_steps.serve import served
from memoryos_memoryfs.parts import Parts


async def recall_newest(parts: Parts, scope: Scope, query: ReadQuery) -> Recalled:
    """Give the newest items, by when they were made; they have no score."""
    async with parts.storage.transaction(scope) as work:
        items = await work.items.newest(query.look, before=None, limit=query.top_k)
    now = parts.clock.now()
    hits = [Hit(item=item) for item in items if served(scope, query.look, item, now)]
    return Recalled(hits=hits, exactness=Exactness.EXACT)
