"""How the two arms of recall become one score between 0 and 1.

    score   = ½ · dense + ½ · words
    dense   = cosine similarity of the vectors, negative ones as 0
    words   = own ∪ ¼ · beside                   a ∪ b = 1 − (1 − a)(1 − b)
    own     = share(query) ∪ ½ · share(last message of the query)
    beside  = the greater `own` of the turns before and after the item in its session
    share   = BM25(text, item) / BM25(text, text), at most 1

BM25 (k1 1.2, b 0.75, Lucene's idf, which is never negative) divided by what the
asked text itself would score is a share: 1 for an item with the same words, 0
without a common one. So both halves are absolute: a score means the same in
every tenant and for every query, an identical text is 1 and `min_score` can be
set once. Nothing is scaled by the best or worst candidate of the day. More of
any part never lowers a score.

A query of several lines is a conversation: its last message is asked for
itself, too, in words as above and in the vector, query + ¼ · last message
(`conversation_vector`). What each part gains is measured in
docs/reference/recall.md; the decision is ADR 0014.
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
BESIDE: Final = 0.25
"""How much of the words of the turns beside it an item may count as its own."""
LAST_WORDS: Final = 0.5
LAST_VECTOR: Final = 0.25
"""How much the last message of a conversation is asked for itself, beside the whole."""

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
    beside: float = 0.0
    """What the turns beside it in its session added to the score."""


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


def union(one: Floats, other: Floats) -> Floats:
    """Give 1 − (1 − one)(1 − other), computed so that the smallest number counts: at least each of them, at most 1."""
    joined: Floats = np.minimum(1.0, one + (1.0 - one) * other)
    return joined


def own_shares(whole: Floats, last: Floats | None) -> Floats:
    """Give the shares of items by the shares for the query and, in a conversation, for its last message."""
    return whole if last is None else union(whole, LAST_WORDS * last)


def conversation_vector(whole: Floats, last: Floats) -> Floats:
    """Give the direction in which a conversation is looked for, not yet of unit length."""
    direction: Floats = whole + LAST_VECTOR * last
    return direction


def fuse(
    dense: Mapping[str, float] | None,
    lexical: Mapping[str, float] | None,
    beside: Mapping[str, float] | None = None,
) -> list[Fused]:
    """Give all candidates of both arms, best first, equal scores by similarity, then by id.

    `dense` holds cosine similarities, also those of items that only the lexical
    arm found; an item absent from it has no vector yet. `lexical` holds own
    shares; an item absent from it has none of the words. None: the arm could
    not be asked (no vector of the query, or no word in it). `beside` holds the
    greater share of the turns beside an item. An item is scored by the halves
    that it has, so one that waits for its vector is found by its words.
    """
    cosines, shares, around = dense or {}, lexical or {}, beside or {}
    ranked: list[tuple[float, float, str, Fused]] = []
    for id_ in cosines.keys() | shares.keys():
        cosine = cosines.get(id_)
        share = None if lexical is None else shares.get(id_, 0.0)
        alone = _score(cosine, share)
        score = alone
        if share is not None and around.get(id_):
            score = _score(cosine, min(1.0, share + (1 - share) * BESIDE * around[id_]))
        # Opposite meanings all score 0; their similarity still orders them.
        ranked.append((-score, -(cosine or 0.0), id_, Fused(id_, score, cosine, share, score - alone)))
    ranked.sort(key=lambda one: one[:3])
    return [one[3] for one in ranked]


def _score(cosine: float | None, share: float | None) -> float:
    if share is None:
        return min(1.0, max(0.0, cosine or 0.0))
    if cosine is None:
        return min(1.0, share)
    return min(1.0, DENSE_WEIGHT * max(0.0, cosine) + (1 - DENSE_WEIGHT) * share)
