"""RecallIndex on PostgreSQL: tenant, principals and places are conditions inside each arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
from memoryos_postgres import queries
from memoryos_postgres.database import array_literal
from memoryos_vectors.ports import Exactness, IndexScope, Vector, VectorQuery

from memoryos_memoryfs.adapters.array_params import integers_literal
from memoryos_memoryfs.adapters.dense_arm import search_dense
from memoryos_memoryfs.adapters.matching_ids import matching_ids
from memoryos_memoryfs.adapters.places import Place, place_of, plan_once
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.adapters.word_counts import WHOLE_BYTES_MAX, WordCounts, rarest, read_counts
from memoryos_memoryfs.domain.fusion import Floats, lexical_shares, own_shares
from memoryos_memoryfs.domain.items import State
from memoryos_memoryfs.domain.query_words import QueryWords
from memoryos_memoryfs.ports.storage import DenseAnswer, LexicalAnswer, Look, Within

_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
_NEIGHBOURS = queries.load("memoryos_memoryfs", "sql/neighbours.sql")["neighbours"]
IDS_MAX: Final = 200_000
"""Items that one filter may let through (some 0.3 s); beyond it the answer says TRUNCATED."""
MATCHED_MAX: Final = 20_000
"""Rows with an asked word that one call scores (some 60 ms); beyond it the answer says TRUNCATED."""
QUERY_WORDS_MAX: Final = 64
"""Words of a query, and of its last message, that are asked for; of more the rarest in scope decide."""
NOTHING: Final = LexicalAnswer(best=(), shares={}, truncated=False)


class PgRecall:
    """Both arms as one transaction sees them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def within(self, look: Look) -> Within:
        """See `RecallIndex.within`."""
        place = await place_of(self._session, *look.paths)
        within = self._within(place, look)
        return within if look.plain else await self._narrowed(within, place, look)

    async def readable(self, look: Look) -> Within:
        """See `RecallIndex.readable`."""
        place = await place_of(self._session, *look.paths)
        return await self._narrowed(self._within(place, look), place, look)

    def _within(self, place: Place, look: Look) -> Within:
        return Within(
            scope=self._session.scope,
            reader_ids=frozenset(place.reader_ids),
            path_ids=frozenset(place.path_ids),
            ids=None,
            pending=place.pending,
            include_cold=look.include_cold,
        )

    async def _narrowed(self, within: Within, place: Place, look: Look) -> Within:
        ids = await matching_ids(self._session, place, look, limit=IDS_MAX + 1)
        return replace(within, ids=frozenset(ids[:IDS_MAX]), truncated=len(ids) > IDS_MAX)

    async def dense(self, within: Within, query: Vector, limit: int, *, named: Sequence[str] = ()) -> DenseAnswer:
        """See `RecallIndex.dense`."""
        found = await search_dense(
            self._session,
            IndexScope(tenant=self._session.tenant, principal_ids=within.reader_ids),
            VectorQuery(
                model_id=self._session.shared.model_id,
                vector=query,
                limit=limit,
                path_ids=within.path_ids,
                allowed_ids=within.ids,
                include_cold=within.include_cold,
                score_ids=tuple(named),
            ),
        )
        answer = found.answer
        return DenseAnswer(
            scores={hit.item_id: hit.score for hit in answer.hits},
            asked=answer.scores,
            compared_count=answer.compared_count,
            exact=answer.exactness is Exactness.EXACT,
            fallback=found.fallback,
        )

    async def lexical(self, within: Within, words: QueryWords, limit: int) -> LexicalAnswer:
        """See `RecallIndex.lexical`."""
        if not words:
            return NOTHING
        keys = await self._session.keys()
        hashes = self._session.shared.hashes
        texts = [
            dict(zip(hashes.of(keys, part), part.values(), strict=True)) for part in (words.whole, words.last) if part
        ]
        found = await self._held(within, texts)
        if found.ids and any(len(text) > QUERY_WORDS_MAX for text in texts):
            if len(found.ids) > MATCHED_MAX:  # not all that hold one of so many words: counted in the database
                texts = rarest(texts, await self._frequencies(within, texts), QUERY_WORDS_MAX)
                found = await self._held(within, texts)
            else:
                texts = rarest(texts, found.frequencies(), QUERY_WORDS_MAX)
                found = found.of_words(list(dict.fromkeys(chain.from_iterable(texts))))
        if not found.ids:
            return NOTHING
        columns = {number: n for n, number in enumerate(found.asked)}
        parts = [
            lexical_shares(
                found.corpus,
                np.array(list(text.values()), dtype=np.int64),
                found.counts[:, [columns[number] for number in text]],
                found.lengths,
            )
            for text in texts
        ]
        shares = own_shares(parts[0], parts[1] if len(parts) > 1 else None)
        return LexicalAnswer(
            best=_best(found.ids, shares, limit),
            shares=dict(zip(found.ids, shares.tolist(), strict=True)),
            truncated=len(found.ids) > MATCHED_MAX,
        )

    async def neighbours(self, within: Within, ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """See `RecallIndex.neighbours`."""
        if not ids:
            return {}
        plan_once(self._session)
        rows = await self._session.tx.fetch_all(
            _NEIGHBOURS,
            {
                "tenant": self._session.tenant,
                "reader_ids": integers_literal(sorted(within.reader_ids)),
                "ids": array_literal(tuple(ids)),
                "state": State.ACTIVE,
                "clearance": within.scope.clearance,
                "now": self._session.shared.clock.now(),
            },
            binary=True,
        )
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["item_id"], []).append(row["beside_id"])
        return found

    async def _held(self, within: Within, texts: Sequence[Mapping[int, int]]) -> WordCounts:
        """Give which items hold which of the words of `texts`, MATCHED_MAX items and one more at most."""
        asked = list(dict.fromkeys(chain.from_iterable(texts)))
        params, conditions = self._conditions(within)
        row = await self._session.tx.fetch_one(
            _statement("lexical", within, conditions),
            {
                **params,
                "hashes": integers_literal(asked),
                "limit": MATCHED_MAX + 1,
                "whole_bytes_max": WHOLE_BYTES_MAX,
            },
            binary=True,
        )
        return read_counts(row, asked)

    async def _frequencies(self, within: Within, texts: Sequence[Mapping[int, int]]) -> dict[int, int]:
        """Give how many items hold each of the words, of those that occur in scope."""
        params, conditions = self._conditions(within)
        hashes = list(dict.fromkeys(chain.from_iterable(texts)))
        rows = await self._session.tx.fetch_all(
            _statement("lexical_frequencies", within, conditions),
            {**params, "hashes": integers_literal(hashes)},
            binary=True,
        )
        return {row["hash"]: row["frequency"] for row in rows}

    def _conditions(self, within: Within) -> tuple[dict[str, Any], str]:
        params: dict[str, Any] = {
            "tenant": self._session.tenant,
            "reader_ids": integers_literal(sorted(within.reader_ids)),
            "path_ids": integers_literal(sorted(within.path_ids)),
        }
        if within.ids is None:
            return params, ""
        params["ids"] = array_literal(tuple(sorted(within.ids)))
        return params, "\n    AND item_id = ANY (%(ids)s::text[])"


def _statement(name: str, within: Within, conditions: str) -> str:
    """Give a lexical statement; words of cold items stand in a table of their own."""
    query = _QUERIES[name].replace("/*conditions*/", conditions)
    return query.replace("memoryfs.item_tokens", "memoryfs.all_tokens") if within.include_cold else query


def _best(ids: Sequence[str], shares: Floats, limit: int) -> tuple[str, ...]:
    """Give the ids of the `limit` highest shares, best first, ties by id."""
    least = np.partition(shares, -limit)[-limit] if limit < len(shares) else 0.0
    chosen = [(-float(shares[n]), ids[n]) for n in np.flatnonzero(shares >= least).tolist()]
    return tuple(item_id for _, item_id in sorted(chosen)[:limit])
