"""How often the asked words occur in which items: packed words of items, as they are kept and as PostgreSQL gives them.

A packed word is its hash (8 bytes) and how often it occurs (2 bytes). Items come
with all of their words, long ones with the asked words only: finding a word among
30,000 costs a twentieth here of what it costs PostgreSQL, where every array of
words is walked for every asked one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memoryos_memoryfs.domain.fusion import Corpus

WHOLE_BYTES_MAX: Final = 1_000
"""Packed words of an item that are sent as they are; of longer ones only the asked words."""
_WORD: Final = np.dtype([("hash", ">i8"), ("count", ">i2")])
_LOW: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class WordCounts:
    """Items that hold an asked word, of a corpus: `counts[i, w]` says how often item i holds the word `asked[w]`."""

    corpus: Corpus
    ids: Sequence[str]
    lengths: NDArray[np.int64]
    asked: Sequence[int]
    counts: NDArray[np.int64]

    def frequencies(self) -> dict[int, int]:
        """Give how many of the items hold each word, of those that occur in one."""
        held = np.count_nonzero(self.counts, axis=0).tolist()
        return {number: count for number, count in zip(self.asked, held, strict=True) if count}

    def of_words(self, asked: Sequence[int]) -> WordCounts:
        """Give the same of some of the words, and of the items that hold one of those."""
        columns = {number: n for n, number in enumerate(self.asked)}
        counts = self.counts[:, [columns[number] for number in asked]]
        kept = np.flatnonzero(counts.any(axis=1))
        return WordCounts(self.corpus, [self.ids[n] for n in kept.tolist()], self.lengths[kept], asked, counts[kept])


_NONE: Final = WordCounts(
    Corpus(item_count=0, length_mean=1.0), (), np.zeros(0, dtype=np.int64), (), np.zeros((0, 0), dtype=np.int64)
)


def rarest(texts: Sequence[Mapping[int, int]], frequencies: Mapping[int, int], count: int) -> list[dict[int, int]]:
    """Give of each text that has more than `count` words as many of the rarest that occur at all."""
    order = sorted(frequencies, key=lambda number: (frequencies[number], number))
    kept = []
    for text in texts:
        held = order if len(text) > count else list(text)
        numbers = [number for number in held if number in text][:count] or list(text)[:count]
        kept.append({number: text[number] for number in numbers})
    return kept


def packed_words(hashes: Sequence[Sequence[int]], counts: Sequence[Sequence[int]]) -> list[bytes]:
    """Give the packed words of each item."""
    words = np.empty(sum(map(len, hashes)), dtype=_WORD)
    words["hash"] = np.fromiter(chain.from_iterable(hashes), dtype=np.int64, count=len(words))
    words["count"] = np.fromiter(chain.from_iterable(counts), dtype=np.int64, count=len(words))
    wire, step, start = words.tobytes(), words.itemsize, 0
    packed = []
    for one in hashes:
        end = start + step * len(one)
        packed.append(wire[start:end])
        start = end
    return packed


def read_counts(row: Mapping[str, Any] | None, asked: Sequence[int]) -> WordCounts:
    """Give what the row of the lexical statement says of the words `asked`, which are distinct."""
    if row is None or not row["ids"]:
        return _NONE
    words = np.frombuffer(row["words"], dtype=_WORD)
    items = np.repeat(np.arange(len(row["ids"])), np.array(row["sizes"], dtype=np.int64) // _WORD.itemsize)
    hashes = words["hash"].astype(np.int64)
    wanted = np.array(asked, dtype=np.int64)
    # Most words are none of those asked: their low bits say so, and few are compared as a whole.
    likely = np.zeros(_LOW + 1, dtype=np.bool_)
    likely[wanted & _LOW] = True
    places = np.flatnonzero(likely[hashes & _LOW])
    order = np.argsort(wanted)
    columns = order[np.minimum(np.searchsorted(wanted[order], hashes[places]), len(wanted) - 1)]
    same = wanted[columns] == hashes[places]
    places, columns = places[same], columns[same]
    counts = np.zeros((len(row["ids"]), len(wanted)), dtype=np.int64)
    counts[items[places], columns] = words["count"][places]
    corpus = Corpus(item_count=row["item_count"], length_mean=row["length_mean"])
    return WordCounts(corpus, row["ids"], np.array(row["lengths"], dtype=np.int64), asked, counts)
