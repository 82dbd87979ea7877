"""The order of an answer: boosts, then diversity, then the least score."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memoryos_memoryfs.domain.hits import Hit
from memoryos_memoryfs.domain.ranking import boosted, diversified, likeness_of
from memoryos_memoryfs.operations.recall_steps.query import ReadQuery
from memoryos_memoryfs.ports.storage import Work


async def ordered(work: Work, query: ReadQuery, hits: Sequence[Hit], now: datetime, *, count: int) -> list[Hit]:
    """Give the best `count` of served hits with their final scores, none below `min_score`."""
    best = list(hits)
    if query.boosts:
        uses = await work.scans.uses([hit.item.id for hit in best]) if query.boosts.use else {}
        best = [boosted(hit, query.boosts, now, uses) for hit in best]
        best.sort(key=lambda hit: -hit.score)  # equal ones keep their order
    if query.diversity:
        vectors = await work.scans.vectors([hit.item.id for hit in best])
        best = diversified(best, query.diversity, likeness_of(vectors), count)
    return [hit for hit in best[:count] if hit.score >= query.min_score]
