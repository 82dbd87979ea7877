"""How often the asked words occur in which items, from either form in which PostgreSQL gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MANY_WORDS: Final = 24
"""From here on the entries of an item are looked through once, instead of once a word: half the time at 64 words."""


@dataclass(frozen=True, slots=True)
class WordCounts:
    """Items that hold an asked word: `counts[i, w]` says how often item i holds word w."""

    ids: Sequence[str]
    lengths: NDArray[np.int64]
    counts: NDArray[np.int64]


def statement_for(asked: Sequence[int]) -> str:
    """Give the name of the statement that is cheaper for so many words."""
    return "lexical_many" if len(asked) >= MANY_WORDS else "lexical"


def read_counts(row: Mapping[str, Any], asked: Sequence[int]) -> WordCounts:
    """Give what a row of `statement_for(asked)` says."""
    if statement_for(asked) == "lexical":
        return WordCounts(row["ids"], np.array(row["lengths"], dtype=np.int64), np.array(row["counts"], dtype=np.int64))
    numbers: dict[str, int] = {}
    items = np.array([numbers.setdefault(item_id, len(numbers)) for item_id in row["ids"]], dtype=np.int64)
    lengths = np.zeros(len(numbers), dtype=np.int64)
    lengths[items] = row["lengths"]
    words = np.array(asked, dtype=np.int64)
    order = np.argsort(words)
    columns = order[np.searchsorted(words[order], np.array(row["hashes"], dtype=np.int64))]
    counts = np.zeros((len(numbers), len(words)), dtype=np.int64)
    counts[items, columns] = row["counts"]
    return WordCounts(list(numbers), lengths, counts)
