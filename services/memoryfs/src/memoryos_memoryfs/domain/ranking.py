"""What else counts beside the match: newness, importance, use, and being unlike a better hit.

    boosted   = 1 − (1 − m) · Π (1 − w · p · m)      over the parts with a weight
    newness   = 2^(−age / half-life), age since valid_from; 1 for what is still to come
    importance= as written on the item
    use       = hits / (hits + 10), hits of earlier answers

m is the match (domain/fusion.py), w a weight and p a part, all 0..1. So a boost
closes at most the share w · p of the gap to 1, in proportion to the match
itself: what does not match stays at 0, weights of 0 change nothing, the result
stays in 0..1, and of two items with equal parts the better match stays better.

Diversity d takes hits one after the other, each time the one whose

    kept      = boosted · (1 − d · s)                s: greatest likeness to a hit taken before

is highest; that is its score. Likeness is the cosine of the vectors, negative
as 0; of items without a vector the share of words they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from memoryos_core.search_words import text_tokens
from numpy.typing import NDArray

from memoryos_memoryfs.domain.hits import Hit

HALF_LIFE: Final = timedelta(days=30)
USE_HALF: Final = 10
"""Hits at which use counts half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosts:
    """Weights 0..1 of the parts."""

    recency: float = 0.0
    half_life: timedelta = HALF_LIFE
    importance: float = 0.0
    use: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.recency or self.importance or self.use)


def newness(valid_from: datetime, now: datetime, half_life: timedelta) -> float:
    """Give 1 for what begins to hold now or later, half of it after every half-life."""
    age = max(now - valid_from, timedelta())
    return float(2.0 ** -(age / half_life))


def boosted(hit: Hit, boosts: Boosts, now: datetime, uses: Mapping[str, int]) -> Hit:
    """Give the hit with its boosted score and the parts that have a weight."""
    hits = uses.get(hit.item.id, 0)
    recency = newness(hit.item.valid_from, now, boosts.half_life) if boosts.recency else None
    importance = hit.item.importance if boosts.importance else None
    use = hits / (hits + USE_HALF) if boosts.use else None
    left = 1.0
    for weight, part in ((boosts.recency, recency), (boosts.importance, importance), (boosts.use, use)):
        left *= 1.0 - weight * (part or 0.0) * hit.score
    score = min(1.0, hit.score + (1.0 - hit.score) * (1.0 - left))
    return replace(hit, score=score, recency=recency, importance=importance, use=use)


def diversified(hits: Sequence[Hit], diversity: float, likeness: Callable[[Hit, Hit], float], count: int) -> list[Hit]:
    """Give the `count` best of hits in order of score, each with the score that its likeness to the ones before leaves.

    Equal ones keep their order. Takes `count` times the number of hits.
    """
    left = list(hits)
    nearest = [0.0] * len(left)
    taken: list[Hit] = []
    while left and len(taken) < count:
        kept = [hit.score * (1.0 - diversity * like) for hit, like in zip(left, nearest, strict=True)]
        at = max(range(len(left)), key=lambda n: (kept[n], -n))
        best = left.pop(at)
        nearest.pop(at)
        taken.append(replace(best, score=kept[at]))
        nearest = [max(like, likeness(best, hit)) for hit, like in zip(left, nearest, strict=True)]
    return taken


def likeness_of(vectors: Mapping[str, NDArray[np.float32]]) -> Callable[[Hit, Hit], float]:
    """Give how alike two hits are, 0..1, by their vectors where both have one, else by their words."""
    words: dict[str, frozenset[str]] = {}

    def tokens(hit: Hit) -> frozenset[str]:
        found = words.get(hit.item.id)
        if found is None:
            found = words[hit.item.id] = frozenset(text_tokens(hit.item.payload.content))
        return found

    def likeness(one: Hit, other: Hit) -> float:
        a, b = vectors.get(one.item.id), vectors.get(other.item.id)
        if a is not None and b is not None:
            return min(1.0, max(0.0, float(a @ b)))
        mine, others = tokens(one), tokens(other)
        return len(mine & others) / len(mine | others) if mine or others else 0.0

    return likeness
