"""Queries of few and of many words: PostgreSQL is asked in two ways, and both give the shares of the formula."""

from __future__ import annotations

import random

import pytest
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_memoryfs.adapters.word_counts import MANY_WORDS
from memoryos_memoryfs.domain.query_words import query_words
from memoryos_memoryfs.domain.word_scan import word_shares


@pytest.mark.parametrize("count", [1, MANY_WORDS - 1, MANY_WORDS, 60])
async def test_shares_are_those_of_the_formula_for_any_number_of_words(alice, count):
    dice = random.Random(count)
    vocabulary = [f"word{n}x" for n in range(80)]
    texts = {}
    for _ in range(40):
        text = " ".join(dice.choices(vocabulary, k=dice.randint(1, 60)))
        texts[await alice.write(text)] = text
    words = dice.sample(vocabulary, count)
    query = " ".join(words) + "\n" + " ".join(dice.choices(words, k=count))
    expected = dict(zip(texts, word_shares(list(texts.values()), query_words(query)), strict=True))
    response: pb.ReadResponse = await alice.read(query, top_k=50)
    assert {hit.item.id: hit.details.lexical for hit in response.hits} == pytest.approx(expected)
