"""Which index answers a dense search: PostgreSQL, or the copy and PostgreSQL for what the copy does not know yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memoryos_vectors.errors import IndexRefused, IndexUnavailable
from memoryos_vectors.ports import Exactness, IndexScope, VectorAnswer, VectorIndex, VectorQuery

from memoryos_memoryfs.adapters.pg_truth_vectors import QUERIES
from memoryos_memoryfs.adapters.session import Session


@dataclass(frozen=True, slots=True)
class DenseFound:
    """An answer, and whether PostgreSQL gave it in the place of the copy."""

    answer: VectorAnswer
    fallback: bool = False


async def search_dense(session: Session, scope: IndexScope, query: VectorQuery) -> DenseFound:
    """Give the nearest entries, complete whatever the copy knows and whether it answers.

    The changes that wait are noted before the copy is asked: whatever is not
    among them is in the copy, and those among them PostgreSQL answers for. A
    filter's answer is compared in PostgreSQL, where it was made: sending its ids
    to Qdrant costs more from a few hundred on, and seconds for the most.
    """
    truth, copy = session.vectors(), session.shared.copy
    if copy is None or query.allowed_ids is not None:
        return DenseFound(await truth.search(scope, query))
    params = {"tenant": scope.tenant, "limit": copy.pending_max + 1}
    route = await session.tx.fetch_one(QUERIES["route"], params)
    assert route is not None
    if not route["copied"]:
        return DenseFound(await truth.search(scope, query))
    pending = frozenset(route["pending_ids"])
    if len(pending) > copy.pending_max:
        return DenseFound(await truth.search(scope, query), fallback=True)
    try:
        known = await copy.index.search(scope, replace(query, excluded_ids=query.excluded_ids | pending))
    except (IndexUnavailable, IndexRefused):
        return DenseFound(await truth.search(scope, query), fallback=True)
    return DenseFound(await _completed(truth, scope, query, known, pending))


async def _completed(
    truth: VectorIndex, scope: IndexScope, query: VectorQuery, known: VectorAnswer, pending: frozenset[str]
) -> VectorAnswer:
    """Give the copy's answer with what waits, by exact score."""
    if not pending:
        return known
    added = await truth.search(scope, replace(query, allowed_ids=pending))
    hits = sorted((*known.hits, *added.hits), key=lambda hit: (-hit.score, hit.item_id))
    exact = known.exactness is Exactness.EXACT and added.exactness is Exactness.EXACT
    return VectorAnswer(
        hits=tuple(hits[: query.limit]),
        compared_count=known.compared_count + added.compared_count,
        exactness=Exactness.EXACT if exact else Exactness.APPROXIMATE,
        scores={**known.scores, **added.scores},
    )
