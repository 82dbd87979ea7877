"""How the two arms of recall become one score between 0 and 1.

    score = ½ · dense + ½ · lexical
    dense   = cosine similarity of the vectors, negative ones as 0
    lexical = BM25(query, item) / BM25(query, query), at most 1

BM25 (k1 1.2, b 0.75, Lucene's idf, which is never negative) divided by what the
query's own text would score is a share: 1 for an item with the same words, 0
without a common one. So both halves are absolute: a score means the same in
every tenant and for every query, an identical text is 1 and `min_score` can be
set once. Nothing is scaled by the best or worst candidate of the day.

Measured with the local embedder (R@5 of the sum / vector alone / BM25 alone):
longmemeval_s_lite .882/.794/.757, madial_zh .578/.527/.515, madial_en
.618/.606/.492, bfcl_memory .950/.762/.938. Min-max or z-scores over all
candidates give .882/.833, .595/.582, .628/.649, .938/.938 but no meaning to a
score; reciprocal ranks lose on paraphrases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

K1: Final = 1.2
B: Final = 0.75
DENSE_WEIGHT: Final = 0.5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What BM25 must know of the items that the caller may read at this place."""

    item_count: int
    length_mean: float
    """Tokens an item, repeated ones counted."""


class Fused(NamedTuple):
    """One candidate with its score and how it came about; None where an arm was not asked or has no vector."""

    id: str
    score: float
    dense: float | None
    lexical: float | None


def rarities(corpus: Corpus, frequencies: NDArray[np.int64]) -> Floats:
    """Give the idf of words by the number of items that hold them; positive, also for one that all hold."""
    held = np.minimum(frequencies, corpus.item_count)
    weights: Floats = np.log1p((corpus.item_count - held + 0.5) / (held + 0.5))
    return weights


def lexical_shares(
    corpus: Corpus,
    query_counts: NDArray[np.int64],
    counts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    frequencies: NDArray[np.int64] | None = None,
) -> Floats:
    """Give BM25 of every item as a share of what the query's own text would score, 0..1.

    `query_counts[w]` says how often the query holds word w, `counts[i, w]` how
    often item i does, `lengths[i]` how many tokens it has. `frequencies[w]` are
    the items that hold w; None: all such items are among the rows.
    """
    if not len(query_counts) or not len(counts):
        return np.zeros(len(counts))
    held = np.count_nonzero(counts, axis=0) if frequencies is None else frequencies
    weights = query_counts * rarities(corpus, held)
    own = float(weights @ _saturation(query_counts, float(query_counts.sum()), corpus))
    shares: Floats = np.minimum(1.0, _saturation(counts, lengths[:, None].astype(np.float64), corpus) @ weights / own)
    return shares


def _saturation(counts: NDArray[np.int64], lengths: Floats | float, corpus: Corpus) -> Floats:
    """Give the part of BM25 that grows with the count and falls with the length of a text."""
    norm = K1 * (1 - B + B * lengths / max(corpus.length_mean, 1.0))
    part: Floats = counts * (K1 + 1) / (counts + norm)
    return part


def fuse(dense: Mapping[str, float] | None, lexical: Mapping[str, float] | None) -> list[Fused]:
    """Give all candidates of both arms, best first, equal scores by similarity, then by id.

    `dense` holds cosine similarities, also those of items that only the lexical
    arm found; an item absent from it has no vector yet. `lexical` holds shares;
    an item absent from it has none of the words. None: the arm could not be
    asked (no vector of the query, or no word in it). An item is scored by the
    halves that it has, so one that waits for its vector is found by its words.
    """
    cosines, shares = dense or {}, lexical or {}
    ranked: list[tuple[float, float, str, float | None, float | None]] = []
    for id_ in cosines.keys() | shares.keys():
        cosine = cosines.get(id_)
        share = None if lexical is None else shares.get(id_, 0.0)
        # Opposite meanings all score 0; their similarity still orders them.
        ranked.append((-_score(cosine, share), -(cosine or 0.0), id_, cosine, share))
    ranked.sort(key=lambda one: one[:3])
    return [Fused(id_, -score, cosine, share) for score, _, id_, cosine, share in ranked]


def _score(cosine: float | None, share: float | None) -> float:
    if share is None:
        return min(1.0, max(0.0, cosine or 0.0))
    if cosine is None:
        return share
    return min(1.0, DENSE_WEIGHT * max(0.0, cosine) + (1 - DENSE_WEIGHT) * share)
