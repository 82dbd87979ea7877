"""The HTTP connector before real upstreams: what arrives is what was meant, what comes back is what was agreed."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
import yaml
from memoryos_core.canonical import canonical_json
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import Identity, TokenSigner, TokenVerifier
from memoryos_grpc import subject_token
from memoryos_toolgateway.adapters.connector_http import HttpConnector
from memoryos_toolgateway.adapters.http_edge import HttpEdge
from memoryos_toolgateway.adapters.resource_lookup import HttpResourceLookup
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Outcome, OutcomeKind
from memoryos_toolgateway.domain.results import MASK
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import ArgumentsInvalid, SkillFileInvalid
from memoryos_toolgateway.ports import Attempt

from .edges import edge_of, sender_of
from .eval_data import eval_data
from .oauth import OAuthServer, serving_oauth
from .upstream import Request, Upstream

KEY = PrivateKey.generate("issuer", Use.SUBJECT)
SIGNER = TokenSigner(KEY, SystemClock(), UlidSource())
EXCHANGE = {"server": "crm", "audience": "crm", "scope": "read"}


def skill(folder: Path, connector: dict[str, Any], effect_class: str = "read", **more: Any) -> Skill:
    properties = {name: {"type": "string"} for name in ("a", "b", "c")} | {"n": {"type": "integer"}, "list": {}}
    document = {
        "name": "do", "version": "1", "description": "A tool.", "effect_class": effect_class, "risk": "low",
        "timeout_s": 2, "parameters": {"type": "object", "required": ["a"], "properties": properties},
        "connector": {"type": "http", "endpoint": "${UPSTREAM}", "method": "POST", "path": "/echo/x"} | connector,
    } | more  # fmt: skip
    file = folder / "skill.yaml"
    file.write_text(yaml.safe_dump(document, allow_unicode=True))
    return load_skill(file, {"UPSTREAM": "127.0.0.1:1"})


class Bench:
    """One upstream, and calls of skills at it."""

    def __init__(self, folder: Path, upstream: Upstream) -> None:
        self.folder = folder
        self.upstream = upstream
        self.edge: HttpEdge = edge_of()

    def skill(self, connector: dict[str, Any], effect_class: str = "read", **more: Any) -> Skill:
        return skill(self.folder, {"endpoint": self.upstream.address} | connector, effect_class, **more)

    async def call(self, made: Skill, **arguments: Any) -> Outcome:
        connector = HttpConnector(self.edge)
        connector.check(made, arguments)
        return await connector.attempt(Attempt(skill=made, call_id="call_1", arguments=arguments))


@pytest.fixture
def bench(tmp_path: Path, upstream: Upstream) -> Bench:
    return Bench(tmp_path, upstream)


@pytest.fixture
async def oauth() -> AsyncIterator[OAuthServer]:
    async with serving_oauth(TokenVerifier(KeySet([KEY.public]), "oauth", SystemClock())) as server:
        yield server


def token(user: str, **more: Any) -> str:
    identity = Identity(**({"tenant": "acme", "user": user, "roles": frozenset({"user"})} | more))
    return SIGNER.subject(identity, audience=["memoryos"], ttl_s=600)


async def test_arguments_stand_in_path_query_headers_and_body(bench: Bench):
    made = bench.skill(
        {
            "path": "/echo/{a}",
            "query": {"q": "/b"},
            "headers": {"x-line": "line {c}", "x-n": "{n}"},
            "body": {"z": "/n"},
        }
    )
    outcome = await bench.call(made, a="数据", b="x&y", c="A-1", n=7)
    seen = bench.upstream.requests[-1]
    assert (outcome.kind, outcome.result) == (OutcomeKind.SUCCEEDED, b'{"z":7}')
    assert seen.path == "/echo/%E6%95%B0%E6%8D%AE?q=x%26y"
    assert (seen.headers["x-line"], seen.headers["x-n"], seen.body) == ("line A-1", "7", b'{"z":7}')
    await bench.call(made, a="x")
    assert "x-line" not in bench.upstream.requests[-1].headers


@pytest.mark.parametrize(
    "value", ["a\r\nx: y", "a\nb", "\r", "a\x00b", " a", "a ", "", "数据", "é", "\x7f", "\u2028", "x" * 2001], ids=ascii
)
async def test_a_header_takes_one_line_of_printable_ascii(bench: Bench, value: str):
    made = bench.skill({"headers": {"x-line": "{a}"}})
    with pytest.raises(ArgumentsInvalid):
        await bench.call(made, a=value)
    assert bench.upstream.requests == []


async def test_a_form_and_a_template_are_bodies_too(bench: Bench):
    await bench.call(
        bench.skill({"body": {"x": "/a", "y": "/list"}, "body_format": "form"}), a="1&2=3 数", list=[1, "b"]
    )
    seen = bench.upstream.requests[-1]
    assert seen.headers["content-type"] == "application/x-www-form-urlencoded"
    assert seen.body == b"x=1%262%3D3%20%E6%95%B0&y=1&y=b"
    template = {
        "msgtype": "text",
        "text": {"content": {"$text": "工单 {a}：{b}"}, "who": {"$arg": "/list"}},
        "no": [{"$arg": "/c"}],
    }
    outcome = await bench.call(bench.skill({"body_template": template}), a="T-1{b}${secret:X}", b="停机", list=["@all"])
    assert json.loads(outcome.result) == {
        "msgtype": "text", "text": {"content": "工单 T-1{b}${secret:X}：停机", "who": ["@all"]}, "no": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "connector",
    [
        {"headers": {"host": "x"}}, {"headers": {"Cookie": "x"}}, {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": {"authorization": "Bearer {a}"}}, {"headers": {"authorization": "Bearer x"}},
        {"headers": {"x": "a\nb"}}, {"headers": {"x y": "a"}}, {"headers": {"x": "{missing}"}},
        {"headers": {"x": "{a"}},
        {"headers": {"x": "数"}}, {"headers": {"x": "${secret:K}"}}, {"query": {"k": "${secret:K}"}},
        {"query": {"k": "${secret:a b}"}}, {"query": {"k": "x"}}, {"redirects": 1}, {"redirects": 6, "method": "GET"},
        {"body_template": {"$arg": "a"}}, {"body_template": {"$arg": "/missing"}},
        {"body_template": {"x": {"$text": "{z}"}}},
        {"body_template": {"x": {"$arg": "/a", "y": 1}}}, {"body_template": {"x": {"$text": "${secret:K}"}}},
        {"body_template": {}, "body": "arguments"}, {"body_template": {}, "body_format": "form"},
        {"identity": "user"}, {"exchange": EXCHANGE}, {"identity": "service", "exchange": EXCHANGE},
        {"identity": "user", "exchange": EXCHANGE, "headers": {"Authorization": "${secret:K}"}},
        {"identity": "user", "exchange": {"server": "a b"}}, {"response": {"schema": {"$ref": "http://x/"}}},
        {"response": {"pick": "x"}}, {"response": {"pick": {"a": 1}}}, {"response": {"other": 1}},
    ],
    ids=str,
)  # fmt: skip
def test_a_file_that_leaks_or_confuses_is_refused(tmp_path: Path, connector: dict[str, Any]):
    with pytest.raises(SkillFileInvalid) as caught:
        skill(tmp_path, connector)
    assert "/connector" in str(caught.value)


async def test_secrets_are_injected_at_the_edge_and_seen_by_nobody(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    secret = 'sk-"0123\\456/789'
    file = tmp_path / "secret"
    file.write_text(secret + "\n")
    bench.edge = edge_of(secrets={"KEY": file})
    connector = {"path": "/mirror/x", "headers": {"authorization": "Bearer ${secret:KEY}"},
                 "query": {"key": "${secret:KEY}"}, "identity": "service"}  # fmt: skip
    made = bench.skill(connector)
    with caplog.at_level(logging.DEBUG):
        outcome = await bench.call(made, a="x")
    assert bench.upstream.requests[-1].headers["authorization"] == f"Bearer {secret}"
    assert bench.upstream.requests[-1].path.startswith("/mirror/x?key=sk-%220123%5C456%2F789")
    assert json.loads(outcome.result)["authorization"] == f"Bearer {MASK}"
    assert secret.encode() not in outcome.result
    assert json.loads(outcome.result)["path"] == f"/mirror/x?key={MASK}", "nor as the URL has it"
    assert secret not in caplog.text
    assert "sk-" not in repr(made)
    digest = made.definition_digest
    file.write_text("rotated-value\n")
    await bench.call(made, a="x")
    assert bench.upstream.requests[-1].headers["authorization"] == "Bearer rotated-value"
    assert bench.skill(connector).definition_digest == digest
    for broken in ("", "two\nlines", "數"):
        file.write_text(broken)
        before = len(bench.upstream.requests)
        outcome = await bench.call(made, a="x")
        assert (outcome.kind, outcome.error_code) == (OutcomeKind.NOT_SENT, messages.NO_IDENTITY_CODE)
        assert len(bench.upstream.requests) == before


RESPONSE = {"success": {"/errcode": 0}, "pick": {"line": "/data/0/line", "note": "/data/0/note"},
            "schema": {"type": "object", "required": ["line"], "properties": {"line": {"type": "string"}}}}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind", "code", "result"),
    [
        ({"errcode": 0, "data": [{"line": "A", "secret": 1}]}, OutcomeKind.SUCCEEDED, "", {"line": "A"}),
        ({"errcode": 0, "data": [{"line": "A", "note": 2}]}, OutcomeKind.SUCCEEDED, "", {"line": "A", "note": 2}),
        ({"errcode": 40001, "data": []}, OutcomeKind.REFUSED, "upstream_status", None),
        ({"errcode": False, "data": [{"line": "A"}]}, OutcomeKind.REFUSED, "upstream_status", None),
        ({"errcode": 0, "data": [{"line": 5}]}, OutcomeKind.SUCCEEDED, "result_invalid", {}),
        ({"errcode": 0, "data": []}, OutcomeKind.SUCCEEDED, "result_invalid", {}),
        ({"data": [{"line": "A"}]}, OutcomeKind.SUCCEEDED, "result_invalid", {}),
        ([], OutcomeKind.SUCCEEDED, "result_invalid", {}),
        ("text", OutcomeKind.SUCCEEDED, "result_invalid", {}),
    ],
    ids=str,
)
async def test_a_result_is_what_the_skill_says_that_it_is(
    bench: Bench, body: Any, kind: OutcomeKind, code: str, result: Any
):
    made = bench.skill({"body": {"raw": "/a"}, "path": "/say/x", "response": RESPONSE}, "non_idempotent")
    bench.upstream.says = json.dumps(body).encode()
    outcome = await bench.call(made, a="x")
    assert (outcome.kind, outcome.error_code) == (kind, code)
    assert result is None or json.loads(outcome.result) == result
    read = await bench.call(bench.skill({"path": "/say/x", "response": RESPONSE}), a="x")
    assert read.kind is (OutcomeKind.REFUSED if code else OutcomeKind.SUCCEEDED)


async def test_an_upstream_that_finds_it_too_much_is_told_apart(bench: Bench):
    for status, code in ((429, messages.THROTTLED_CODE), (400, messages.REFUSED_CODE), (409, messages.REFUSED_CODE)):
        outcome = await bench.call(bench.skill({"path": f"/status-{status}/{{a}}"}, "non_idempotent"), a="x")
        assert (outcome.kind, outcome.error_code) == (OutcomeKind.REFUSED, code)


async def test_an_answer_that_is_cut_off_or_no_json_is_not_of_the_form(bench: Bench):
    made = bench.skill({"path": "/say/x", "response": RESPONSE, "response_bytes_max": 256}, "non_idempotent")
    for raw in (b'{"errcode":0,"data":[{"line":"' + b"x" * 500 + b'"}]}', b"<html>", b"", b'{"errcode":0,"errcode":1}'):
        bench.upstream.says = raw
        outcome = await bench.call(made, a="x")
        assert (outcome.kind, outcome.error_code) == (OutcomeKind.SUCCEEDED, messages.RESULT_INVALID_CODE)


async def test_the_upstream_sees_the_user(
    bench: Bench, oauth: OAuthServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    oauth.owners = {"hengli": "sales-a", "nordwerk": "sales-b"}
    bench.edge = edge_of(exchanges={"crm": oauth.section(tmp_path)})
    connector = {
        "endpoint": oauth.address,
        "method": "GET",
        "path": "/customers/{a}",
        "identity": "user",
        "exchange": EXCHANGE,
    }
    made = bench.skill(connector)
    with caplog.at_level(logging.DEBUG), subject_token(token("sales-a")):
        own, again, other = [await bench.call(made, a=name) for name in ("hengli", "hengli", "nordwerk")]
    assert json.loads(own.result) == {"customer": "hengli", "seen_by": "sales-a", "echo": MASK}
    assert own == again
    assert (other.kind, other.agent_message) == (OutcomeKind.REFUSED, messages.FORBIDDEN)
    assert oauth.exchanges == 1
    with subject_token(token("sales-b")):
        assert json.loads((await bench.call(made, a="nordwerk")).result)["seen_by"] == "sales-b"
    with subject_token(token("sales-a", clearance=1)):
        assert json.loads((await bench.call(made, a="hengli")).result)["seen_by"] == "sales-a"
    assert oauth.exchanges == 3, "another token of the same user gets a token of its own"
    assert not any(given in caplog.text for given in oauth.given)


async def test_without_a_token_nothing_is_sent(bench: Bench, oauth: OAuthServer, tmp_path: Path):
    bench.edge = edge_of(exchanges={"crm": oauth.section(tmp_path)})
    made = bench.skill({"identity": "user", "exchange": EXCHANGE})
    nobody = await bench.call(made, a="x")
    assert (nobody.kind, nobody.error_code) == (OutcomeKind.REFUSED, messages.NO_IDENTITY_CODE)
    with subject_token(token("sales-a")):
        for status, body, kind in [
            (400, b'{"error":"invalid_grant"}', OutcomeKind.REFUSED), (403, b"{}", OutcomeKind.REFUSED),
            (401, b'{"error":"invalid_client"}', OutcomeKind.NOT_SENT), (500, b"{}", OutcomeKind.NOT_SENT),
            (200, b"{}", OutcomeKind.NOT_SENT), (200, b"<html>", OutcomeKind.NOT_SENT),
            (302, b"{}", OutcomeKind.NOT_SENT),
            (200, b'{"access_token":"a b","token_type":"Bearer"}', OutcomeKind.NOT_SENT),
            (200, b'{"access_token":"a\\r\\nx: y","token_type":"Bearer"}', OutcomeKind.NOT_SENT),
            (200, b'{"access_token":"abc","token_type":"mac"}', OutcomeKind.NOT_SENT),
            (200, b'{"access_token":"abc","token_type":"Bearer","expires_in":"x"}', OutcomeKind.NOT_SENT),
        ]:  # fmt: skip
            oauth.answers = [(status, body)]
            outcome = await bench.call(made, a="x")
            assert (outcome.kind, outcome.error_code) == (kind, messages.NO_IDENTITY_CODE), body
    assert bench.upstream.requests == []
    oauth.audiences = frozenset()
    with subject_token(token("sales-a")):
        assert (await bench.call(made, a="x")).kind is OutcomeKind.REFUSED
    with subject_token("forged"):
        assert (await bench.call(made, a="x")).kind is OutcomeKind.REFUSED


async def test_a_token_is_used_until_shortly_before_it_ends(bench: Bench, oauth: OAuthServer, tmp_path: Path):
    oauth.owners = {"hengli": "sales-a"}
    bench.edge = edge_of(exchanges={"crm": oauth.section(tmp_path)})
    made = bench.skill({"endpoint": oauth.address, "method": "GET", "path": "/customers/{a}", "identity": "user",
                        "exchange": EXCHANGE})  # fmt: skip
    oauth.lifetime_s = 5
    with subject_token(token("sales-a")):
        for _ in range(2):
            assert (await bench.call(made, a="hengli")).kind is OutcomeKind.SUCCEEDED
        assert oauth.exchanges == 2
        oauth.lifetime_s = 300
        await bench.call(made, a="hengli")
        oauth.given.clear()
        assert (await bench.call(made, a="hengli")).kind is OutcomeKind.REFUSED
        assert (await bench.call(made, a="hengli")).kind is OutcomeKind.SUCCEEDED, "a token that is refused is not kept"


async def test_the_authorisation_server_is_behind_the_same_guard(bench: Bench, oauth: OAuthServer, tmp_path: Path):
    bench.edge = edge_of(sender_of((bench.upstream.address,)), exchanges={"crm": oauth.section(tmp_path)})
    with subject_token(token("sales-a")):
        outcome = await bench.call(bench.skill({"identity": "user", "exchange": EXCHANGE}), a="x")
    assert (outcome.kind, oauth.exchanges, bench.upstream.requests) == (OutcomeKind.NOT_SENT, 0, [])


async def test_a_look_up_has_credentials_too_and_keeps_them_to_itself(bench: Bench, oauth: OAuthServer, tmp_path: Path):
    oauth.owners = {"hengli": "sales-a"}
    bench.edge = edge_of(exchanges={"crm": oauth.section(tmp_path)})
    lookup = {"endpoint": oauth.address, "path": "/customers/{a}", "identity": "user", "exchange": EXCHANGE}
    made = bench.skill({}, resource={"type": "customer", "id": "/a", "lookup": lookup})
    with subject_token(token("sales-b")):
        assert (await HttpResourceLookup(bench.edge).look_up(made, {"a": "hengli"})).properties == b""
    with subject_token(token("sales-a")):  # the upstream echoes the token: properties that hold it are none
        assert (await HttpResourceLookup(bench.edge).look_up(made, {"a": "hengli"})).properties == b""
    assert oauth.exchanges == 2


def hostile_strings() -> list[str]:
    found = [
        row["payload"]
        for name in ("path_traversal", "command_injection")
        for row in eval_data(f"security/{name}.jsonl")
    ]
    return [
        *found,
        *eval_data("security/blns.json"),
        *(row["path"] for row in eval_data("security/sensitive_paths.jsonl")),
    ]


@pytest.mark.parametrize("where", ["path", "query", "header", "json", "form", "template"])
async def test_hostile_strings_arrive_byte_by_byte_or_not_at_all(bench: Bench, where: str):
    connector = {
        "path": {"path": "/mirror/{a}"}, "query": {"path": "/mirror/x", "query": {"q": "/a"}},
        "header": {"path": "/mirror/x", "headers": {"x-a": "{a}"}}, "json": {"path": "/mirror/x", "body": "arguments"},
        "form": {"path": "/mirror/x", "body": {"q": "/a"}, "body_format": "form"},
        "template": {"path": "/mirror/x", "body_template": {"q": {"$text": "<{a}>"}}},
    }[where]  # fmt: skip
    made, strings, arrived = bench.skill(connector), hostile_strings()[::19], 0
    for text in strings:
        before = len(bench.upstream.requests)
        try:
            outcome = await bench.call(made, a=text)
        except ArgumentsInvalid:
            assert where in ("path", "header")
            assert len(bench.upstream.requests) == before
            continue
        assert outcome.kind is OutcomeKind.SUCCEEDED, text
        got = _arrived(where, bench.upstream.requests[-1])
        assert got == (canonical_json(text) if where == "json" else text.encode()), text
        arrived += 1
    assert arrived > len(strings) // 4


def _arrived(where: str, seen: Request) -> bytes:
    """What the upstream reads where the argument stands."""
    match where:
        case "path":
            return unquote_to_bytes(seen.path.removeprefix("/mirror/"))
        case "query":
            return unquote_to_bytes(seen.path.partition("?q=")[2])
        case "header":
            return seen.headers["x-a"].encode("latin-1")
        case "json":
            return seen.body.removeprefix(b'{"a":').removesuffix(b"}")
        case "form":
            return unquote_to_bytes(seen.body.removeprefix(b"q=").decode())
    text: str = json.loads(seen.body)["q"]
    return text[1:-1].encode()
