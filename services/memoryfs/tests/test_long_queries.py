"""Queries of few and of many words, texts short and long: the shares are those of the formula."""

from __future__ import annotations

import random

import pytest
from memoryos.memoryfs.v1 import memoryfs_pb2 as pb
from memoryos_memoryfs.adapters.word_counts import WHOLE_BYTES_MAX, packed_words, rarest, read_counts
from memoryos_memoryfs.domain.query_words import query_words
from memoryos_memoryfs.domain.word_scan import word_shares


@pytest.mark.parametrize("count", [1, 8, 60])
async def test_shares_are_those_of_the_formula_for_any_number_of_words(alice, count):
    dice = random.Random(count)
    vocabulary = [f"word{n}x" for n in range(80)]
    texts = {}
    for _ in range(40):
        text = " ".join(dice.choices(vocabulary, k=dice.randint(1, 60)))
        texts[await alice.write(text)] = text
    for size in (WHOLE_BYTES_MAX // 10 - 1, WHOLE_BYTES_MAX // 10, WHOLE_BYTES_MAX // 10 + 1, 900):
        text = " ".join([*dice.choices(vocabulary, k=20), *(f"rest{n}" for n in range(size))])
        texts[await alice.write(text)] = text
    words = dice.sample(vocabulary, count)
    query = " ".join(words) + "\n" + " ".join(dice.choices(words, k=count))
    expected = dict(zip(texts, word_shares(list(texts.values()), query_words(query)), strict=True))
    response: pb.ReadResponse = await alice.read(query, top_k=50)
    assert {hit.item.id: hit.details.lexical for hit in response.hits} == pytest.approx(expected)


def test_packed_words_are_read_as_they_were_written():
    dice = random.Random(7)
    low = 1 << 16  # words that differ above their low bits only
    asked = [dice.randrange(-(2**63), 2**63) for _ in range(30)] + [5, 5 + low, 5 - low]
    hashes = [
        [*dice.sample(asked, dice.randint(0, 9)), dice.randrange(-(2**63), 2**63), 5 + 2 * low] for _ in range(50)
    ]
    counts = [[dice.randint(1, 32_767) for _ in one] for one in hashes]
    packed = packed_words(hashes, counts)
    row = {
        "ids": [f"i{n}" for n in range(50)],
        "lengths": list(map(sum, counts)),
        "sizes": list(map(len, packed)),
        "words": b"".join(packed),
        "item_count": 60,
        "length_mean": 7.0,
    }
    found = read_counts(row, asked)
    expected = [
        [dict(zip(one, held, strict=True)).get(word, 0) for word in asked]
        for one, held in zip(hashes, counts, strict=True)
    ]
    assert found.counts.tolist() == expected
    assert found.lengths.tolist() == row["lengths"]
    some = found.of_words(asked[:3])
    assert [some.ids, some.counts.tolist()] == [
        [f"i{n}" for n, line in enumerate(expected) if any(line[:3])],
        [line[:3] for line in expected if any(line[:3])],
    ]
    assert found.frequencies() == {
        word: held for n, word in enumerate(asked) if (held := sum(line[n] > 0 for line in expected))
    }


def test_of_a_long_text_the_rarest_words_are_kept_that_occur():
    text = {1: 1, 2: 3, 3: 1, 4: 1}
    assert rarest([text, {9: 2}], {1: 5, 2: 1, 4: 5}, 2) == [{2: 3, 1: 1}, {9: 2}]
    assert rarest([text], {}, 2) == [{1: 1, 2: 3}]
