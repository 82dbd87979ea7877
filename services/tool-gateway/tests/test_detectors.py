"""What detectors find, in Chinese and English, and what they leave alone; and obligations that are not known."""

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st
from memoryos.policy.v1 import policy_pb2 as p
from memoryos_toolgateway.adapters.obligation_messages import obligations_of
from memoryos_toolgateway.domain.detectors import masked
from memoryos_toolgateway.domain.obligations import DETECTORS, Notice, Obligations, Patch, RateLimit

FOUND = [
    ("phone", "请打13812345678找他", "13812345678"),
    ("phone", "电话：+86 138-1234-5678。", "138-1234-5678"),
    ("phone", "手机１３８１２３４５６７８号", "１３８１２３４５６７８"),
    ("phone", "call +44 20 7946 0958 now", "7946"),
    ("phone", "(415) 555-0132 is wrong, (415)555-2671 is right", "555-2671"),
    ("phone", "总机010-62345678转8", "62345678"),
    ("email", "发到li.si+1@example.com谢谢", "li.si+1@example.com"),
    ("email", "ｌｉ＠ｅｘａｍｐｌｅ．ｃｏｍ", "ｌｉ＠ｅｘａｍｐｌｅ．ｃｏｍ"),
    ("cn_id_card", "身份证号110101199003077571已核", "110101199003077571"),
    ("cn_id_card", "身份证１１０１０１１９９００３０７７５７１。", "１１０１０１"),
    ("cn_id_card", "id=11010519491231002X", "11010519491231002X"),
    ("card_number", "卡4111 1111 1111 1111 12/27", "4111 1111 1111 1111"),
    ("card_number", "12 4111-1111-1111-1111", "4111-1111-1111-1111"),
    ("card_number", "银联卡6222021234567890128尾号", "6222021234567890128"),
    ("iban", "Konto DE89 3704 0044 0532 0130 00 BITTE", "DE89 3704 0044 0532 0130 00"),
    ("iban", "账号gb82west12345698765432。", "gb82west12345698765432"),
    ("secret", "key sk-abcdefghijklmnop1234", "sk-abcdefghijklmnop1234"),
    ("secret", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("secret", "密码是abc12345", "abc12345"),
    ("secret", 'api_key: "9f8A7b6C5d4E3f2G1h"', "9f8A7b6C5d4E3f2G1h"),
    ("secret", "Authorization: Bearer abcdefghijklmnop1234", "abcdefghijklmnop1234"),
    ("secret", "postgres://app:p4ss%40word@db/x", "p4ss%40word"),
    ("secret", "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----", "MIIabc"),
    ("secret", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIiOiIxIn0"),
    ("phone", "1\u200b3812\u200d345678", "3812"),
]
LEFT = [
    "order 20240101123456789 of 2024-01-01 12:30:45.123456",
    "ISBN 9787111213826, 192.168.1.100:8080, 1234567.89",
    "身份证号110101199003077572", "4111 1111 1111 1112", "DE89370400440532013001",
    "the password: required; token count is 12345678", "a@b, @name, x@localhost", "Q3 交付计划已确认",
]  # fmt: skip


@pytest.mark.parametrize(("detector", "text", "hidden"), FOUND)
def test_it_is_found_also_next_to_chinese_and_in_full_width(detector: str, text: str, hidden: str):
    shown = masked(text, {detector})
    assert hidden not in shown
    assert f"[redacted:{detector}]" in shown


@pytest.mark.parametrize("text", LEFT)
def test_other_numbers_and_words_are_left_alone(text: str):
    assert masked(text, DETECTORS) == text


@given(st.text(max_size=200))
def test_no_text_breaks_them_and_nothing_is_found_twice(text: str):
    assert masked(text, frozenset()) == text
    once = masked(text, DETECTORS)
    assert once == text or "[redacted:" in once


@given(st.text(alphabet="中文， 。a1", max_size=20), st.text(alphabet="中文， 。a", max_size=20))
def test_a_number_is_found_between_any_words(before: str, after: str):
    before = before.rstrip("1")
    assert "13812345678" not in masked(f"{before}13812345678{after}", {"phone"})


def rate(**more: object) -> p.Obligation:
    values = {"key": "k", "limit": 3, "cost": 1, "window": Duration(seconds=60)} | more
    return p.Obligation(rate_limit=p.RateLimitObligation(**values))


def patch(pointer: str = "/a", value: bytes = b"1") -> p.Obligation:
    return p.Obligation(
        rewrite_args=p.RewriteArgsObligation(patches=[p.ArgumentPatch(pointer=pointer, value_json=value)])
    )


def test_obligations_of_one_kind_are_put_together():
    found = obligations_of(
        [
            p.Obligation(approval=p.ApprovalObligation(group="g")),
            p.Obligation(redact=p.RedactObligation(pointers=["/a"], detectors=["email"])),
            p.Obligation(redact=p.RedactObligation(pointers=["/b", "/a"])),
            p.Obligation(output_limit=p.OutputLimitObligation(bytes=500)),
            p.Obligation(output_limit=p.OutputLimitObligation(bytes=300)),
            p.Obligation(taint=p.TaintObligation(facts=["personal_data"])),
            p.Obligation(notify=p.NotifyObligation(channel="team", text="t")),
            rate(), patch(value=b'{"x":1.0}'),
        ]
    )  # fmt: skip
    assert found == Obligations(
        approval=True, pointers=("/a", "/b"), detectors=frozenset({"email"}), output_limit_bytes=300,
        taints=frozenset({"personal_data"}), notices=(Notice("team", "t"),), rates=(RateLimit("k", 3, 60, 1),),
        rewrites=(Patch("/a", {"x": 1.0}),),
    )  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        p.Obligation(),
        p.Obligation.FromString(p.Obligation(read_only=p.ReadOnlyObligation()).SerializeToString() + b"\xf8\x07\x01"),
        p.Obligation(read_only=p.ReadOnlyObligation.FromString(b"\x08\x01")),
        p.Obligation(redact=p.RedactObligation(detectors=["faces"])),
        p.Obligation(redact=p.RedactObligation(pointers=["a"])),
        p.Obligation(redact=p.RedactObligation(pointers=["/~2"])),
        p.Obligation(taint=p.TaintObligation(facts=["said"])),
        p.Obligation(taint=p.TaintObligation()),
        p.Obligation(output_limit=p.OutputLimitObligation(bytes=0)),
        p.Obligation(notify=p.NotifyObligation(channel="../x", text="t")),
        p.Obligation(notify=p.NotifyObligation(channel="team", text="t" * 501)),
        p.Obligation(rewrite_args=p.RewriteArgsObligation()),
        patch(value=b"NaN"), patch(value=b'{"a":1,"a":2}'), patch(value=b""), patch(""), patch("a"),
        rate(limit=float("nan")), rate(limit=float("inf")), rate(limit=-1), rate(cost=-1), rate(key=""),
        rate(window=Duration()), rate(window=Duration(seconds=1, nanos=5)), rate(window=Duration(seconds=10**9)),
    ],
    ids=repr,
)  # fmt: skip
def test_an_obligation_that_is_not_known_in_every_part_makes_the_list_unknown(message: p.Obligation):
    assert obligations_of([p.Obligation(read_only=p.ReadOnlyObligation()), message]) is None
    assert obligations_of([p.Obligation(read_only=p.ReadOnlyObligation())] * 17) is None
