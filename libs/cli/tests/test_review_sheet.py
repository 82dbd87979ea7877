"""What a reviewer is shown: the most important first, and nothing that can be disguised."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memoryos_cli.review_sheet import answers, arguments, cut, mixed, relative, sheet, shown
from memoryos_sdk.calls import Actor
from memoryos_sdk.reviews import Review, Vote
from rich.cells import cell_len

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
RLO, ZWSP, CYRILLIC_A = "\u202e", "\u200b", "\u0430"


def review(given: Any = None, **more: Any) -> Review:
    fields: dict[str, Any] = {
        "id": "rev_1", "call_id": "call_1", "decision_id": "dec_1", "state": "pending", "group": "finance", "quorum": 2,
        "requester": Actor(user="张伟", agent_chain=("helper", "inner")), "skill": "refund.create", "arguments": given,
        "action_digest_hmac": "0" * 64, "votes": (), "create_time": NOW, "expire_time": NOW + timedelta(minutes=14),
        "resolve_time": None, "etag": "1", "reasons": ("The amount is above the limit.",), "skill_version": "3",
        "effect_class": "non_idempotent", "risk": "high", "resource_type": "order", "resource_id": "O-1",
    }  # fmt: skip
    return Review(**{**fields, **more})


def test_ten_seconds_are_enough():
    votes = (Vote(reviewer="r1", verdict="approve", comment="客户已确认", create_time=NOW),)
    lines = sheet(review({"amount": 2000}, votes=votes), NOW)
    assert lines == [
        ("state", "pending, counts as denied in 14 min"),
        ("who asks", "张伟 → helper → inner"),
        ("does", "refund.create 3 (high risk)"),
        ("effect", "happens for good: it cannot be brought back by trying again"),
        ("to", "order O-1"),
        ("why you", "The amount is above the limit."),
        ("approvals", "1 of 2 by finance"),
        ("approve", "r1: 客户已确认"),
    ]


def test_an_effect_that_nobody_knows_is_the_worst():
    assert "cannot be brought back" in dict(sheet(review(effect_class="unspecified"), NOW))["effect"]
    assert dict(sheet(review(effect_class="read"), NOW))["effect"] == "only reads"


def test_how_to_answer_is_for_who_may_while_it_waits():
    assert answers(review({})) == ["mos review approve rev_1 -m WHY", "mos review deny rev_1 -m WHY"]
    assert answers(review(None)) == []
    assert answers(review({}, state="expired")) == []
    assert (
        dict(sheet(review({}, state="denied", resolve_time=NOW - timedelta(hours=3)), NOW))["state"] == "denied 3 h ago"
    )


def test_arguments_are_a_table_of_their_places():
    rows, more = arguments(
        review({"to": ["a@b.example"], "order": {"lines": [{"sku": "X"}], "空": []}, "n": 1, "t": "1"})
    )
    assert rows == [
        ("to[0]", "a@b.example", ""),
        ("order.lines[0].sku", "X", ""),
        ("order.空", "[]", ""),
        ("n", "1", ""),
        ("t", '"1"', ""),
    ]
    assert more == 0
    assert arguments(review({})) == ([], 0)


@pytest.mark.parametrize("text", ["true", "null", "1e3", "", " x", "x ", '"x"', "{}"])
def test_a_text_that_could_be_something_else_is_quoted(text):
    ((_, value, _),), _ = arguments(review({"a": text}))
    assert value.startswith('"')
    assert value.endswith('"')


def test_what_is_masked_says_so():
    assert arguments(review({"card": "[masked]"}))[0] == [("card", "[masked]", "")]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (f"pay {RLO}0001{chr(0x202C)}", "pay \\u202e0001\\u202c"),
        (f"a{ZWSP}b", "a\\u200bb"),
        ("a\x1b[2Kb", "a\\u001b[2Kb"),
        ("one\ntwo", "one\\ntwo"),
        ("a\u00a0b", "a\\u00a0b"),
        ("a\u3164b", "a\\u3164b"),
        ("x\U000e0041", "x\\U000e0041"),
        ("x\ufe0f", "x\\ufe0f"),
        ("a\\u202eb", "a\\\\u202eb"),
        ("中文　全角", "中文　全角"),
    ],
)
def test_nothing_is_invisible_and_an_escape_cannot_be_forged(text, seen):
    assert shown(text) == seen
    ((name, value, remark),), _ = arguments(review({text: text}))
    assert (name, value) == (seen, seen)
    assert bool(remark) == (seen.replace("\\\\", "\\") != text)


def test_words_of_two_alphabets_are_pointed_at():
    word = f"p{CYRILLIC_A}ypal"
    assert mixed(f"mail to x@{word}.com") == word
    assert mixed("Привет world") == mixed("中文 and English") == mixed("naïve café") == ""
    assert arguments(review({"to": f"x@{word}.com"}))[0][0][2] == f"“{word}” mixes alphabets"


def test_long_texts_show_beginning_length_and_end():
    text = "开头" + "中" * 5_000 + "rm -rf /"
    seen = cut(text, 160)
    assert seen.startswith("开头")
    assert seen.endswith("rm -rf /")
    assert "(5,010 characters)" in seen
    assert cell_len(seen) <= 160 + len(" … (5,010 characters) … ")
    assert cut("中" * 80, 160) == "中" * 80
    ((_, value, _),), _ = arguments(review({"body": text}), full=True)
    assert value == text


def test_many_arguments_are_counted():
    many = review({str(n): n for n in range(100)})
    rows, more = arguments(many)
    assert (len(rows), more) == (40, 60)
    assert len(arguments(many, full=True)[0]) == 100


def test_times_are_relative():
    for seconds, text in (
        (5, "in 5 s"),
        (-90, "90 s ago"),
        (840, "in 14 min"),
        (3 * 3600, "in 3 h"),
        (-4e5, "4 days ago"),
    ):
        assert relative(NOW + timedelta(seconds=seconds), NOW) == text
    assert relative(None, NOW) == ""
    assert "soon" in dict(sheet(replace(review({}), expire_time=NOW + timedelta(seconds=30)), NOW))["state"]
