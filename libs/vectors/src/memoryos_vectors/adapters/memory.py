"""VectorIndex in numpy: exact, in the process, for tests and as the oracle of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from memoryos_vectors.models import IndexedModels, newest
from memoryos_vectors.ports import (
    Exactness,
    IndexScope,
    Tier,
    Vector,
    VectorAnswer,
    VectorEntry,
    VectorHit,
    VectorQuery,
)


class InMemoryVectorIndex:
    """Keeps entries in dictionaries; keeps nothing when the process ends."""

    def __init__(self, models: IndexedModels) -> None:
        self._models = models
        self._entries: dict[tuple[str, str], dict[str, VectorEntry]] = {}

    async def upsert(self, tenant: str, model_id: str, entries: Sequence[VectorEntry], *, fresh: bool = False) -> None:
        """See `VectorIndex.upsert`; `fresh` makes no difference here."""
        entries = newest(entries)
        matrix = self._models.check(model_id, [entry.vector for entry in entries])
        kept = self._entries.setdefault((tenant, model_id), {})
        for entry, vector in zip(entries, matrix, strict=True):
            old = kept.get(entry.item_id)
            if old is None or old.revision <= entry.revision:
                kept[entry.item_id] = replace(entry, vector=vector)

    async def delete(self, tenant: str, item_ids: Sequence[str]) -> int:
        """See `VectorIndex.delete`."""
        removed = 0
        for (owner, _), kept in self._entries.items():
            if owner == tenant:
                removed += sum(kept.pop(item_id, None) is not None for item_id in set(item_ids))
        return removed

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        """See `VectorIndex.search`; always exact."""
        (vector,) = self._models.check(query.model_id, [query.vector])
        kept = self._entries.get((scope.tenant, query.model_id), {})
        entries = [entry for entry in kept.values() if _visible(entry, scope, query)]
        if not entries:
            return VectorAnswer(hits=(), compared_count=0, exactness=Exactness.EXACT)
        matrix = np.stack([entry.vector for entry in entries])
        norms = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)
        scores = np.clip((matrix @ vector) / norms, -1.0, 1.0)
        hits = [VectorHit(e.item_id, e.revision, float(s)) for e, s in zip(entries, scores, strict=True)]
        hits.sort(key=lambda hit: (-hit.score, hit.item_id))
        wanted = set(query.score_ids)
        return VectorAnswer(
            hits=tuple(hits[: query.limit]),
            compared_count=len(hits),
            exactness=Exactness.EXACT,
            scores={hit.item_id: hit.score for hit in hits if hit.item_id in wanted},
        )

    async def vectors(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, Vector]:
        """See `VectorIndex.vectors`."""
        kept = self._entries.get((tenant, model_id), {})
        return {item_id: kept[item_id].vector for item_id in item_ids if item_id in kept}


def _visible(entry: VectorEntry, scope: IndexScope, query: VectorQuery) -> bool:
    return (
        not scope.principal_ids.isdisjoint(entry.acl)
        and (query.path_ids is None or entry.path_id in query.path_ids)
        and (query.allowed_ids is None or entry.item_id in query.allowed_ids)
        and entry.item_id not in query.excluded_ids
        and (query.include_cold or entry.tier is Tier.HOT)
    )
