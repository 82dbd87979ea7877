"""Text of any script and any malice goes in and comes out as it was, and is found."""

from __future__ import annotations

import base64
import json
import unicodedata
from pathlib import Path

import grpc
import pytest
from memoryos.memoryfs.v1 import memoryfs_pb2

BLNS = Path(__file__).parents[4] / "shared" / "eval" / "data" / "security" / "blns.json"
INVALID = grpc.StatusCode.INVALID_ARGUMENT
HOSTILE = [
    "line\u2028separator and\u2029paragraph",
    "next\u0085line",
    "\u202eright to left\u202c",
    "\u200f\u0645\u0631\u062d\u0628\u0627 right to left mark",
    "e\u0301 decomposed",
    "\ufeffbyte order mark",
    "👩‍👩‍👧‍👦 family",
    "\U0001f468\U0001f3ff",
    "ﷺ ligature",
    "'; DROP TABLE memoryfs.items; --",
    "${jndi:ldap://x}",
    "{{7*7}} %s %(x)s {0}",
    "\\x00 \\u0000",
    "\x01\x02\x1b[31m controls",
    "𝕿𝖍𝖊 𝖖𝖚𝖎𝖈𝖐",
]


def naughty_strings() -> list[str]:
    if not BLNS.exists():
        return []
    return [text for text in json.loads(BLNS.read_text()) if text]


def says_something(text: str) -> bool:
    """Tell whether a text has a character that can be seen, and no NUL."""
    return "\0" not in text and any(unicodedata.category(char)[0] in "LNPSM" for char in text)


async def test_hostile_text_comes_back_byte_for_byte(alice):
    texts = [text for text in HOSTILE + naughty_strings() if says_something(text)]
    kept: dict[str, str] = {}
    for start in range(0, len(texts), 200):
        some = texts[start : start + 200]
        results = await alice.write_entries([memoryfs_pb2.WriteEntry(content=text) for text in some])
        kept.update((result.id, text) for result, text in zip(results, some, strict=True))
    page = await alice.list(page_size=500)
    assert not page.next_page_token or len(page.items) == 500
    assert all(item.content == kept[item.id] for item in page.items)
    for text in HOSTILE + texts[::7]:  # as a query none of them breaks anything, and each finds itself
        hits = (await alice.read(text, top_k=5)).hits
        assert text in [hit.item.content for hit in hits] or hits[0].score > 0.9


async def test_naughty_strings_of_nothing_visible_are_refused(alice):
    for text in naughty_strings():
        if not says_something(text):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await alice.write(text)
            assert refused.value.code() is INVALID


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u2003\u00a0", "\u200b", "\ufeff\u200d", "with\u0000nul"])
async def test_text_that_is_nothing_is_refused(alice, text):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await alice.write(text)
    assert refused.value.code() is INVALID


async def test_a_lone_surrogate_cannot_be_sent(alice):
    with pytest.raises(UnicodeEncodeError):
        await alice.write("\ud800")


@pytest.mark.parametrize("raw", [b'{"a":1,"a":2}', b'{"a":NaN}', b"[]", b'{"a":"\\ud800"}', b"{", b"\xff", b'"x"'])
async def test_attributes_that_two_parsers_read_differently_are_refused(alice, raw):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await alice.write("x", attributes_json=raw)
    assert refused.value.code() is INVALID


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们在上海开会", "上海"),
        ("我们在上海开会", "在上海开"),
        ("客户 A 确认了 Q3 交付计划", "交付计划"),
        ("ＶＩＰ 客户先走特批流", "VIP"),
        ("ｶﾀｶﾅ の 話", "カタカナ"),
        ("ประชุมที่กรุงเทพ", "กรุงเทพ"),
        ("서울에서 회의", "서울"),
        ("cafe\u0301 au lait", "café"),
        ("CAFÉ AU LAIT", "cafe"),
        ("The machines were running", "machine runs"),
        ("part WR-1024/B is late", "WR-1024/B"),
        ("part WR-1024/B is late", "wr-1024"),
        ("see mem_01ARZ3NDEKTSV4RRFFQ69G5FAV", "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("mail to a.b@example.org today", "a.b@example.org"),
        ("Straße gesperrt", "strasse"),
        ("Привет мир", "привет"),
    ],
)
async def test_words_of_any_script_are_found(alice, text, query):
    wanted = await alice.write(text)
    for n in range(5):
        await alice.write(f"unrelated filler {n}")
    best = (await alice.read(query, top_k=1)).hits[0]
    assert best.item.id == wanted
    assert best.details.lexical > 0


async def test_content_of_the_largest_size_is_kept_and_its_end_is_found(alice):
    text = " ".join(f"word{n}" for n in range(9_000)) + " finalword"
    item_id = await alice.write(text[:100_000] if len(text) > 100_000 else text)
    hit = (await alice.read("finalword")).hits[0]
    assert (hit.item.id, hit.details.lexical > 0) == (item_id, True)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await alice.write("x" * 100_001)
    assert refused.value.code() is INVALID


async def test_binary_looking_content_is_text(alice):
    text = base64.b64encode(bytes(range(256))).decode()
    assert (await alice.get(await alice.write(text))).content == text


@pytest.mark.parametrize(
    ("wanted", "others", "query"),
    [
        ("WR-1024", ["WR-1025", "WR-10240", "XWR-1024", "WR-102"], "WR-1024"),
        ("WR-1024", ["WR-1025", "WR-10240", "XWR-1024", "WR-102"], "ｗｒ－１０２４"),
        ("WR-1024", ["WR-1025", "WR-10240"], "客户 WR-1024 的订单在哪里"),
        ("5Z3-M6x20", ["5Z3-M6x25", "5Z4-M6x20", "5Z3-M8x20"], "5z3-m6x20"),
        ("A.12-34/B", ["A.12-34/C", "A.12-35/B", "B.12-34/A"], "where is part A.12-34/B"),
        ("mem_01ARZ3NDEKTSV4RRFFQ69G5FAV", ["mem_01ARZ3NDEKTSV4RRFFQ69G5FAW"], "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("2025-07-01", ["2025-07-10", "2025-01-07"], "2025-07-01"),
    ],
)
async def test_an_identifier_is_found_before_those_that_look_like_it(alice, wanted, others, query):
    entries = [memoryfs_pb2.WriteEntry(content=f"order {name} left the hall") for name in [*others, wanted] * 2]
    noise = [memoryfs_pb2.WriteEntry(content=f"nothing to do with it {n}") for n in range(8)]
    await alice.write_entries([*entries, *noise])
    hits = (await alice.read(query, top_k=4)).hits
    assert [wanted in hit.item.content.split() for hit in hits] == [True, True, False, False]
    assert hits[1].score > hits[2].score


@pytest.mark.parametrize("query", ["\u200b", "\ufeff\u2060", "\u3000", "\n\t", "\u00ad"])
async def test_a_query_of_nothing_visible_never_breaks_with_other_parts(alice, query):
    ids = {await alice.write("first thing"), await alice.write("second matter")}
    now = await alice.get(next(iter(ids)))
    for fields in ({}, {"diversity": 1.0}, {"boosts": memoryfs_pb2.Boosts(recency=1)}, {"valid_at": now.valid_from}):
        assert set(await alice.read_ids(query, **fields)) <= ids
    assert set(await alice.read_ids(query)) == ids
    assert set(await alice.read_ids(query, as_of=now.create_time)) <= ids
