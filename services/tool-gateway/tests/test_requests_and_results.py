"""Requests made of arguments, results made of answers, and what decisions mean: rules without I/O."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from memoryos_toolgateway.domain.decisions import Action, Decision, Effect, Terms, judge
from memoryos_toolgateway.domain.http_template import CannotRender, render
from memoryos_toolgateway.domain.obligations import NONE, Obligations
from memoryos_toolgateway.domain.results import MASK, result_json, shown
from memoryos_toolgateway.domain.schema_check import CompiledSchema
from memoryos_toolgateway.domain.skill import (
    BuiltinConnector,
    EffectClass,
    Egress,
    Operation,
    RequestTemplate,
    ResourceMapping,
    Skill,
    UpstreamIdentity,
)

from .eval_data import eval_data

TEMPLATE = RequestTemplate(
    endpoint="127.0.0.1:8700", method="POST", path="/things/{name}/parts", query={"q": "/q"}, body={"b": "/q"}
)


def skill(**changes: Any) -> Skill:
    values = {
        "name": "do", "version": "1", "description": "", "parameters_json": b"{}", "schema": CompiledSchema(True),
        "permissions": (), "effect_class": EffectClass.READ, "risk": "low", "timeout_s": 1.0, "attempts_max": 1,
        "output_limit_bytes": 1000, "sensitive_results": (), "sensitive_arguments": (), "recipients": (),
        "returns": (), "intents": (), "egress": Egress.NONE, "destructive": False,
        "identity": UpstreamIdentity.NONE, "opened": False,
        "resource": ResourceMapping(),
        "connector": BuiltinConnector(operation=Operation.MEMORY_READ), "definition_digest": "d",
    }  # fmt: skip
    return Skill(**(values | changes))


def test_values_are_escaped_where_they_stand():
    request = render(TEMPLATE, {"name": "a b/c?d#e%2f数", "q": ["x&y=z", 1, True, 2.5]})
    assert request.url == (
        "http://127.0.0.1:8700/things/a%20b%2Fc%3Fd%23e%252f%E6%95%B0/parts?q=x%26y%3Dz&q=1&q=true&q=2.5"
    )
    assert request.body == b'{"b":["x&y=z",1,true,2.5]}'


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "../x", "x/../y", "x\\..\\y", "a\nb", "a\r\nHost: evil", "a\x00", "/", "//", "x/", " ", ". /x",
     True, 1.5, None, [], {}, "x" * 9000],
    ids=ascii,
)  # fmt: skip
def test_a_value_in_the_path_is_one_step(value: Any):
    with pytest.raises(CannotRender):
        render(TEMPLATE, {"name": value})


def test_no_hostile_value_changes_where_a_request_goes():
    hostile = [row["payload"] for row in eval_data("security/path_traversal.jsonl")]
    hostile += [row["url"] for row in eval_data("security/ssrf_urls.jsonl")]
    hostile += eval_data("security/blns.json")
    for value in hostile:
        try:
            request = render(TEMPLATE, {"name": value, "q": value})
        except CannotRender:
            continue
        parts = urlsplit(request.url)
        assert (parts.scheme, parts.netloc) == ("http", "127.0.0.1:8700")
        steps = parts.path.split("/")
        assert (len(steps), steps[1], steps[3]) == (4, "things", "parts"), value
        assert parts.fragment == ""
        assert not any(c in request.url for c in "\r\n\0 ")


def test_an_absent_argument_is_left_out_and_null_is_a_value_in_the_body():
    assert render(TEMPLATE, {"name": "a"}).url.endswith("/parts")
    assert render(TEMPLATE, {"name": "a"}).body == b"{}"
    assert render(TEMPLATE, {"name": "a", "q": None}).body == b'{"b":null}'
    with pytest.raises(CannotRender):
        render(TEMPLATE, {"name": "a", "q": {"x": 1}})


def test_integers_stay_exact():
    template = RequestTemplate(endpoint="h:1", method="POST", path="/x", body="arguments")
    assert render(template, {"n": 2**53 + 1, "f": 1.0}).body == b'{"f":1.0,"n":9007199254740993}'


def test_a_result_is_json_of_a_bounded_size():
    assert result_json(b'{"b": 1, "a": [1.0]}', skill(), {}) == b'{"a":[1.0],"b":1}'
    assert result_json(b"", skill(), {}) == b"{}"
    assert json.loads(result_json("héllo".encode(), skill(), {})) == {"text": "héllo"}
    assert json.loads(result_json(b'{"a":1,"a":2}', skill(), {})) == {"text": '{"a":1,"a":2}'}
    assert json.loads(result_json(b"\xff", skill(), {})) == {"text": "�"}
    for raw in (json.dumps({"t": "数" * 5000}).encode(), b'"' * 5000, b"\\" * 5000):
        whole = result_json(raw, skill(), {})
        cut = shown(whole, NONE, 1000)
        assert len(cut.result) <= 1000
        assert cut.whole == whole
        assert json.loads(cut.result)["truncated"] is True


def test_sensitive_results_are_masked_before_they_are_kept():
    masking = skill(sensitive_results=("/token", "/items/secret", "/list/0"))
    raw = json.dumps({"token": {"x": 1}, "items": [{"secret": "s", "id": 1}, {"id": 2}], "list": ["a", "b"]}).encode()
    assert json.loads(result_json(raw, masking, {})) == {
        "token": MASK, "items": [{"secret": MASK, "id": 1}, {"id": 2}], "list": [MASK, "b"],
    }  # fmt: skip
    for lost in (b"token=abc", b'{"token":"abc","token":"abc"}'):
        assert b"abc" not in result_json(lost, masking, {})
    assert b"abc" not in result_json(b'{"token":"abc"', masking, {}, complete=False)


def test_a_sensitive_argument_that_comes_back_is_masked():
    masking = skill(sensitive_arguments=("/card",))
    raw = json.dumps({"message": "card 4111222233334444 refused", "4111222233334444": [4111222233334444]}).encode()
    assert b"4111" not in result_json(raw, masking, {"card": "4111222233334444"})
    assert json.loads(result_json(b'{"ok": "yes"}', masking, {"card": "yes"})) == {"ok": "yes"}


@pytest.mark.parametrize(
    ("value", "echo"),
    [
        ({"number": "4111222233334444"}, '{"n": "is 4111222233334444"}'),
        (["x", ["4111222233334444"]], '["4111222233334444"]'),
        (4111.2223, '{"n": 4111.2223, "t": "4111.2223"}'),
        ('4111"2222', '{"echo": "{\\"card\\": \\"4111\\\\\\"2222\\"}"}'),
        ("4111 2222", '{"url": "/pay?card=4111%202222"}'),
    ],
)
def test_it_is_masked_within_objects_and_in_other_spellings(value: Any, echo: str):
    shown_now = result_json(echo.encode(), skill(sensitive_arguments=("/card",)), {"card": value})
    assert b"4111" not in shown_now
    assert b"[redacted]" in shown_now


@pytest.mark.parametrize("begun", ["4111", "4111222233", "411122223333444", "密码四一一", "密码四一一".encode()[:-1]])
def test_what_of_it_stands_before_the_place_where_an_answer_was_cut_is_masked(begun: str | bytes):
    raw = b'{"message": "' + (begun if isinstance(begun, bytes) else begun.encode())
    arguments = {"card": ["4111222233334444", "密码四一一二"]}
    found = json.loads(result_json(raw, skill(sensitive_arguments=("/card",)), arguments, complete=False))
    assert found["text"] == '{"message": "[redacted]'


def test_names_that_are_masked_alike_lose_nothing():
    raw = b'{"a secret-1": 1, "a secret-2": 2, "a [redacted]": 3}'
    found = json.loads(result_json(raw, skill(), {}, secrets=["secret-1", "secret-2"]))
    assert sorted(found.values()) == [1, 2, 3]


APPROVAL = Obligations(approval=True)


def terms(review_id: str = "") -> Terms:
    return Terms(call_id="call_1", skill=skill(), review_id=review_id)


def decision(**changes: Any) -> Decision:
    return Decision(**({"id": "dec_1", "call_id": "call_1", "effect": Effect.ALLOW} | changes))


@pytest.mark.parametrize(
    ("found", "review_id", "expected"),
    [
        (decision(), "", Action.SEND),
        (decision(), "rev_1", Action.SEND),
        (decision(review_id="rev_1"), "rev_1", Action.SEND),
        (decision(review_id="rev_1", obligations=APPROVAL), "rev_1", Action.SEND),
        (decision(review_id="rev_2"), "rev_1", Action.DENY),
        (decision(review_id="rev_1"), "", Action.DENY),
        (decision(obligations=APPROVAL), "", Action.DENY),
        (decision(obligations=None), "", Action.DENY),
        (decision(call_id="call_2"), "", Action.DENY),
        (decision(id=""), "", Action.DENY),
        (decision(effect=Effect.DENY), "", Action.DENY),
        (decision(effect=Effect.UNKNOWN), "", Action.DENY),
        (decision(effect=Effect.MANUAL_REVIEW), "", Action.DENY),
        (decision(effect=Effect.MANUAL_REVIEW, obligations=APPROVAL), "", Action.PARK),
        (decision(effect=Effect.MANUAL_REVIEW, obligations=None), "", Action.DENY),
        (decision(effect=Effect.MANUAL_REVIEW, obligations=APPROVAL, call_id=""), "", Action.DENY),
    ],
    ids=str,
)
def test_doubt_is_deny(found: Decision, review_id: str, expected: Action):
    assert judge(found, terms(review_id)).action is expected


def test_the_message_of_something_other_than_a_deny_is_not_given_with_a_deny():
    verdict = judge(decision(agent_message="you may", obligations=None), terms())
    assert verdict.agent_message == "This call is not allowed."
