"""Search tokens: every script, identifiers, hostile texts."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memoryos_core.search_words import DISTINCT_MAX, QUERY_DISTINCT_MAX, TOKEN_CHARS_MAX, query_tokens, text_tokens


@pytest.mark.parametrize(
    ("item", "query"),
    [
        ("我们在上海开会", "上海"),
        ("ＷＲ－１０２４ 电机", "WR-1024"),
        ("ﾒﾓﾘ", "メモリ"),
        ("caf\u00e9", "cafe\u0301"),
        ("Café au lait", "cafe"),
        ("ประชุมที่กรุงเทพ", "กรุงเทพ"),
        ("회의는 서울에서", "서울"),
        ("会議は東京です", "東京"),
        ("The meetings were moved", "meeting moves"),
        ("Lola's vet", "lola"),
        ("see mem_01J9ZQ3M8X5T2V7W1K4N6P0RBD now", "mem_01j9zq3m8x5t2v7w1k4n6p0rbd"),
        ("part 10.4/7-B is out", "10.4/7-b"),
        ("part 10.4/7-B is out", "10.4"),
        ("mail u42@factory.example", "u42@factory.example"),
        ("motor WR-1024.", "wr-1024"),
        ("(WR-1024)", "1024"),
        ("STRASSE", "straße"),
        ("Привет МИР", "мир"),
        ("pump\u2028valve\u0085motor", "valve"),
        ("zero\u200bwidth", "zerowidth"),
        ("iPhone15Pro", "iphone15pro"),
    ],
)
def test_a_query_meets_its_item(item: str, query: str) -> None:
    asked = query_tokens(query)
    assert asked
    assert set(asked) & set(text_tokens(item)), (asked, text_tokens(item))


@pytest.mark.parametrize(
    ("item", "query"),
    [("WR-1024", "1025"), ("上海", "北京"), ("the cat", "the dog"), ("ab", "b")],
)
def test_a_query_passes_by_other_items(item: str, query: str) -> None:
    assert not set(query_tokens(query)) & set(text_tokens(item))


def test_an_identifier_is_one_token_beside_its_parts() -> None:
    assert text_tokens("WR-1024") == {"wr-1024": 1, "wr": 1, "1024": 1}


def test_stop_words_are_dropped_unless_nothing_else_is_there() -> None:
    assert text_tokens("what is the takt time") == {"takt": 1, "time": 1}
    assert set(query_tokens("who is it")) == {"who", "is", "it"}


@pytest.mark.parametrize("text", ["", " ", "\u200b", "!?…。、", "\x00", "😀", "\ud800"])
def test_texts_without_letters_have_no_tokens(text: str) -> None:
    assert not text_tokens(text)


def test_counts_and_limits() -> None:
    assert text_tokens("pump pump pump 泵泵泵") == {"pump": 3, "泵泵": 2}
    many = " ".join(f"w{i}" for i in range(20_000))
    assert 15_000 < len(text_tokens(many)) <= DISTINCT_MAX
    assert "w15000" in text_tokens(many)  # the end of a large text is found too
    assert len(query_tokens(many)) == QUERY_DISTINCT_MAX
    assert max(map(len, text_tokens("x" * 5_000))) == TOKEN_CHARS_MAX


@pytest.mark.parametrize(
    "text", ["a-" * 50_000, "-" * 100_000, "a'" * 50_000, "1." * 50_000 + "!", "上a" * 50_000, "\u0301" * 100_000]
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    begin = time.process_time()
    text_tokens(text)
    assert time.process_time() - begin < 2.0


@given(st.text(max_size=200))
def test_any_text_is_the_same_as_item_and_query(text: str) -> None:
    tokens = text_tokens(text)
    assert all(token and len(token) <= TOKEN_CHARS_MAX and count >= 1 for token, count in tokens.items())
    if len(tokens) <= QUERY_DISTINCT_MAX:
        assert query_tokens(text) == tokens


@given(st.text(alphabet="abXY01_'./:@#+- ,;!\t\n\x1c~|=", max_size=40))
def test_chunks_of_ascii_give_the_runs_that_the_pattern_for_every_script_finds(text: str) -> None:
    # A letter of another script, alone, sends the text the other way and adds one token.
    other = dict(text_tokens(f"{text} \u044f"))
    assert other.pop("\u044f") == 1
    alone = text_tokens(text)
    assert dict(alone) == other or not other
