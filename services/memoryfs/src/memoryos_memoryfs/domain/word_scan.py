"""The lexical arm for texts that are in no index: the same shares, over the texts at hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from memoryos_core.search_words import text_tokens

from memoryos_memoryfs.domain.fusion import Corpus, lexical_shares, own_shares
from memoryos_memoryfs.domain.query_words import QueryWords


def word_shares(texts: Sequence[str], words: QueryWords) -> list[float]:
    """Give the share of the query's words that each text holds, 0..1, rare among the texts counting more."""
    held = [text_tokens(text) for text in texts]
    lengths = np.array([sum(counts.values()) for counts in held], dtype=np.int64)
    corpus = Corpus(item_count=len(held), length_mean=float(lengths.mean()) if held else 1.0)
    parts = []
    for text in (words.whole, words.last):
        if text:
            asked = np.array(list(text.values()), dtype=np.int64)
            counts = np.array([[one.get(word, 0) for word in text] for one in held], dtype=np.int64)
            parts.append(lexical_shares(corpus, asked, counts, lengths))
    if not parts:
        return [0.0] * len(held)
    return [float(share) for share in own_shares(parts[0], parts[1] if len(parts) > 1 else None)]
