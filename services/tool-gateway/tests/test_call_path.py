"""The one call path on a real journal and a real upstream, policy in memory."""

import asyncio
import json

import pytest
from memoryos_core.errors import InvalidField
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import DISPATCHES_MAX
from memoryos_toolgateway.errors import (
    ArgumentsInvalid,
    CallDigestMismatch,
    CallNotFound,
    EpochFenced,
    PolicyUnavailable,
    SkillNotFound,
)
from memoryos_toolgateway.operations.get_call import get_call
from memoryos_toolgateway.operations.list_skills import get_skill, list_skills

from .bench import Bench, skill_document, write_skills
from .eval_data import eval_data
from .policies import allow, deny, review
from .upstream import SECRET

pytestmark = pytest.mark.integration


def ready(bench: Bench, behaviour: str = "ok", effect_class: str = "non_idempotent", rule=allow, **more) -> None:
    write_skills(bench.folder, skill_document("do", behaviour, effect_class, **more))
    bench.policy.rules["do"] = rule


async def audit(bench: Bench) -> list[tuple[str, str, str]]:
    rows = await bench.rows("SELECT kind, outcome, attributes->>'state' AS state FROM core.audit ORDER BY seq")
    return [(row["kind"], row["outcome"], row["state"]) for row in rows]


async def test_an_allowed_call_is_made_once_and_its_result_kept(bench: Bench):
    ready(bench)
    first = await bench.call("do", name="a")
    again = await bench.call("do", name="a")
    assert (first.state, first.result) == ("SUCCEEDED", b'{"done":"a","times":1}')
    assert again == first
    assert bench.upstream.effects == {"a": 1}
    assert await audit(bench) == [("CALL_TOOL", "OK", "dispatched"), ("TOOL_RESULT", "OK", "succeeded")]
    rows = await bench.rows("SELECT call_id, decision_id FROM core.audit")
    assert all((row["call_id"], row["decision_id"]) == (first.id, first.decision_id) for row in rows)


async def test_a_denied_call_is_journaled_and_stays_denied(bench: Bench):
    ready(bench, rule=deny)
    denied = await bench.call("do", name="a")
    bench.policy.rules["do"] = allow
    assert await bench.call("do", name="a") == denied
    assert (denied.state, denied.error_code) == ("DENIED", "denied")
    assert bench.upstream.requests == []
    assert await audit(bench) == [("CALL_TOOL", "DENIED", "denied")]


async def test_without_any_rule_every_call_is_denied(bench: Bench):
    write_skills(bench.folder, skill_document("do", "ok"))
    assert (await bench.call("do", name="a")).state == "DENIED"


async def test_an_unknown_skill_is_not_found_by_no_spelling(bench: Bench):
    ready(bench)
    for name in ("nope", "", " ", "DO", "do ", "do\x00", "../do", "d\u043e", "null"):
        with pytest.raises(SkillNotFound):
            await bench.call(name, name="a")
    assert await bench.rows("SELECT 1 FROM toolgateway.calls") == []


async def test_who_may_not_see_a_skill_learns_nothing_of_its_schema(bench: Bench):
    ready(bench, rule=deny)
    with pytest.raises(SkillNotFound):
        await bench.call("do", wrong=1)
    bench.policy.rules["do"] = review
    with pytest.raises(ArgumentsInvalid):
        await bench.call("do", wrong=1)


async def test_policy_that_does_not_answer_refuses_and_leaves_nothing(bench: Bench):
    ready(bench)
    bench.policy.down = True
    with pytest.raises(PolicyUnavailable):
        await bench.call("do", name="a")
    bench.policy.down = False
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name":"ok","name":"evil"}',
        b'{"name":"ok","n\\u0061me":"evil"}',
        b'{"name":NaN}',
        b'{"name":"\\ud800"}',
        b'{"name":"a"',
        b"\xff",
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b'{"name":"' + b"a" * 300_000 + b'"}',
    ],
    ids=lambda raw: ascii(raw[:30]),
)
async def test_arguments_with_two_readings_are_refused(bench: Bench, raw: bytes):
    ready(bench)
    with pytest.raises(InvalidField):
        await bench.raw("do", raw)
    assert bench.policy.asked == []


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"x"', b"1", b"{}", b'{"name":1}', b'{"name":"a","other":1}'])
async def test_arguments_that_break_the_schema_are_refused(bench: Bench, raw: bytes):
    ready(bench)
    with pytest.raises(ArgumentsInvalid) as caught:
        await bench.raw("do", raw)
    assert caught.value.violations


async def test_the_json_test_suite(bench: Bench):
    """What no JSON parser may accept is refused; what all accept reaches the upstream as the same value."""
    write_skills(bench.folder, skill_document("do", "echo", parameters=ANYTHING))
    bench.policy.rules["do"] = allow
    replica = bench.replica()
    for number, case in enumerate(eval_data("security/json_test_suite.jsonl.gz")):
        raw = b'{"name":"a","value":' + case["input"].encode("utf-8", errors="surrogatepass") + b"}"
        if case["expect"] == "reject":
            with pytest.raises((InvalidField, ArgumentsInvalid)):
                await bench.raw("do", raw, f"r{number}", replica=replica)
        elif case["expect"] == "accept" and "duplicated" not in case["name"]:
            call = await bench.raw("do", raw, f"r{number}", replica=replica)
            assert json.loads(call.result) == json.loads(raw), case["name"]


ANYTHING = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": True}}


async def test_arguments_that_grow_beyond_the_limit_in_canonical_form_are_refused(bench: Bench):
    """1e15 is kept as 1000000000000000.0; what is kept must be what policy and a later resume can read."""
    write_skills(bench.folder, skill_document("do", "ok", parameters=ANYTHING))
    bench.policy.rules["do"] = allow
    with pytest.raises(InvalidField):
        await bench.raw("do", b'{"name":"a","value":[' + b",".join([b"1e15"] * 50_000) + b"]}")
    assert bench.policy.asked == []


@pytest.mark.parametrize("name", ["a\0b", "数" * 200], ids=ascii)
async def test_a_resource_id_that_policy_cannot_take_is_refused(bench: Bench, name: str):
    connector = {"type": "http", "endpoint": "${UPSTREAM}", "method": "POST", "path": "/ok/x", "body": "arguments"}
    ready(bench, connector=connector, resource={"type": "order", "id": "/name"})
    with pytest.raises(ArgumentsInvalid):
        await bench.call("do", name=name)
    assert bench.policy.asked == []


async def test_nothing_is_looked_up_for_who_may_not_see_the_skill(bench: Bench):
    """I3: the lookup is a request to the upstream, too, with arguments of the caller's choice."""
    resource = {"type": "ticket", "id": "/name", "lookup": {"endpoint": "${UPSTREAM}", "path": "/tickets/{name}"}}
    ready(bench, resource=resource, rule=deny)
    with pytest.raises(SkillNotFound):
        await bench.call("do", name="a")
    assert bench.upstream.requests == []
    bench.policy.rules["do"] = lambda question: deny(question)  # visible, and this call is denied
    assert (await bench.call("do", name="a")).state == "DENIED"
    assert len(bench.upstream.requests) == 1


async def test_exact_numbers_reach_the_upstream(bench: Bench):
    write_skills(bench.folder, skill_document("do", "echo", parameters=ANYTHING))
    bench.policy.rules["do"] = allow
    raw = b'{"name":"a","value":[9007199254740993,1.0,1e3,-0.0,123456789012345678901234567890]}'
    call = await bench.raw("do", raw)
    assert call.result == raw.replace(b"1e3", b"1000.0")


async def test_hostile_strings_pass_as_they_are(bench: Bench):
    write_skills(bench.folder, skill_document("do", "echo", parameters=ANYTHING))
    bench.policy.rules["do"] = allow
    strings = [*eval_data("security/blns.json"), "\u2028\u0085\x00\u202e\ufeff", "'; DROP TABLE calls; --"]
    raw = json.dumps({"name": "a", "value": strings}).encode()
    call = await bench.raw("do", raw)
    assert call.state == "SUCCEEDED"
    kept = await get_call(bench.journal, bench.scope(), call.id)
    assert json.loads(kept.arguments)["value"] == strings


async def test_the_same_request_id_is_the_same_call_or_nothing(bench: Bench):
    ready(bench)
    write_skills(bench.folder, skill_document("other", "ok"))
    bench.policy.rules["other"] = allow
    await bench.call("do", name="a")
    for skill, arguments in (("do", {"name": "b"}), ("other", {"name": "a"}), ("do", {"name": "a", "note": None})):
        with pytest.raises((CallDigestMismatch, ArgumentsInvalid)):
            await bench.call(skill, **arguments)
    with pytest.raises(CallDigestMismatch):
        await bench.call("do", name="a", amount=1)
    other_user = await bench.call("do", scope=bench.scope(user="u2"), name="b")
    assert other_user.state == "SUCCEEDED", "another issuer's request ids are its own"
    assert bench.upstream.effects == {"a": 1, "b": 1}


async def test_an_effect_whose_answer_is_lost_is_unknown_and_never_repeated(bench: Bench):
    """D7: the upstream does it and drops the answer."""
    for number, behaviour in enumerate(("drop", "half", "hang", "fault-500", "fault-503")):
        write_skills(bench.folder, skill_document(f"do{number}", behaviour))
        bench.policy.rules[f"do{number}"] = allow
    replica = bench.replica()
    for number in range(5):
        for _ in range(2):
            call = await bench.call(f"do{number}", f"r{number}", replica=replica, name=f"n{number}")
            assert (call.state, call.error_code) == ("UNKNOWN", messages.UNKNOWN_CODE)
    assert bench.upstream.effects == {f"n{number}": 1 for number in range(5)}


async def test_a_redirect_is_not_followed_and_its_effect_is_unknown(bench: Bench):
    ready(bench, "redirect")
    assert (await bench.call("do", name="a")).state == "UNKNOWN"
    assert len(bench.upstream.requests) == 1


async def test_what_provably_was_not_sent_has_failed(bench: Bench):
    ready(bench)
    replica = bench.replica(endpoint="127.0.0.1:1")
    call = await bench.call("do", replica=replica, name="a")
    assert (call.state, call.error_code) == ("FAILED", messages.NOT_SENT_CODE)


@pytest.mark.parametrize("effect_class", ["read", "idempotent"])
async def test_harmless_classes_are_tried_again(bench: Bench, effect_class: str):
    ready(bench, "flaky", effect_class)
    call = await bench.call("do", name="a")
    assert (call.state, bench.upstream.effects["a"]) == ("SUCCEEDED", 2)


async def test_keyed_calls_are_tried_again_with_the_same_key(bench: Bench):
    ready(bench, "keyed", "keyed")
    call = await bench.call("do", name="a")
    assert (call.state, bench.upstream.effects["a"]) == ("SUCCEEDED", 1)
    assert [request.headers["idempotency-key"] for request in bench.upstream.requests] == [call.id, call.id]


async def test_a_refusal_after_a_lost_answer_is_no_proof_that_nothing_happened(bench: Bench):
    """Deleted, answer lost, then "not found": the first attempt may have done it."""
    ready(bench, "gone", "idempotent", attempts=2)
    assert (await bench.call("do", name="a")).state == "UNKNOWN"
    assert (await bench.call("do", name="a")).state == "UNKNOWN", "nor is one in a later dispatch"
    assert (len(bench.upstream.requests), bench.upstream.effects["a"]) == (3, 1)


async def test_a_call_in_doubt_is_not_sent_for_ever(bench: Bench):
    ready(bench, "drop", "idempotent", attempts=1)
    for _ in range(DISPATCHES_MAX + 2):
        assert (await bench.call("do", name="a")).state == "UNKNOWN"
    assert bench.upstream.effects["a"] == DISPATCHES_MAX


async def test_an_upstreams_words_and_secrets_go_nowhere(bench: Bench, caplog: pytest.LogCaptureFixture):
    """I5: the answer of a refusing upstream holds its token."""
    ready(bench, "status-403")
    call = await bench.call("do", name="a")
    assert (call.state, call.error_code, call.agent_message) == ("FAILED", messages.REFUSED_CODE, messages.FORBIDDEN)
    rows = await bench.rows("SELECT * FROM core.audit") + await bench.rows("SELECT * FROM toolgateway.calls")
    assert SECRET not in repr(rows) + repr(call) + caplog.text
    assert "/status-403/" not in caplog.text, "a URL holds arguments"


async def test_big_answers_are_cut(bench: Bench):
    ready(bench, "big", output_limit_bytes=1000)
    call = await bench.call("do", name="a")
    assert call.state == "SUCCEEDED"
    assert len(call.result) <= 1000
    assert json.loads(call.result)["truncated"] is True


async def test_contents_are_sealed_in_the_database(bench: Bench):
    write_skills(bench.folder, skill_document("do", "echo"))
    bench.policy.rules["do"] = allow
    call = await bench.call("do", name="a", note="canary-5f1d")
    assert b"canary-5f1d" in call.result
    for table in ("toolgateway.calls", "core.audit", "toolgateway.dispatched"):
        assert "canary-5f1d" not in repr(await bench.rows(f"SELECT * FROM {table}"))
    (row,) = await bench.rows("SELECT action_digest_hmac FROM toolgateway.calls")
    assert row["action_digest_hmac"] == call.action_digest_hmac != call.action_digest


async def test_another_users_call_is_not_there(bench: Bench):
    """I4 of FAULTS."""
    ready(bench)
    call = await bench.call("do", scope=bench.scope(chain=("outer", "inner")), name="a")
    for mine in (bench.scope(), bench.scope(chain=("outer",)), bench.scope(chain=("outer", "inner"))):
        assert (await get_call(bench.journal, mine, call.id)).result == call.result
    for other in (
        bench.scope(user="u2"), bench.scope("other"), bench.scope(chain=("inner",)),
        bench.scope(user="u2", roles=("user",)), bench.scope(user="u2", roles=("tenant-admin",)),
        bench.scope("other", roles=("auditor",)), bench.scope("other", roles=("operator",)),
    ):  # fmt: skip
        with pytest.raises(CallNotFound):
            await get_call(bench.journal, other, call.id)
    for role in ("auditor", "operator"):
        seen = await get_call(bench.journal, bench.scope(user="aud", roles=(role,)), call.id)
        assert (seen.state, seen.arguments, seen.result) == ("SUCCEEDED", b"", b"")


async def test_row_level_security_stands_behind_the_queries(bench: Bench):
    ready(bench)
    await bench.call("do", name="a")
    assert await bench.rows("SELECT id FROM toolgateway.calls", tenant=f"{bench.tenant}other") == []
    assert len(await bench.rows("SELECT id FROM toolgateway.calls")) == 1


async def test_skills_are_listed_by_the_policy_that_decides_calls(bench: Bench):
    names = [f"do{number}" for number in range(5)]
    write_skills(bench.folder, *(skill_document(name, "ok") for name in names))
    bench.policy.rules |= {"do0": allow, "do1": review, "do2": deny, "do4": allow}
    registry = bench.replica().registry
    ask = {"registry": registry, "policy": bench.policy, "journal": bench.journal, "scope": bench.scope()}
    page, token = await list_skills(**ask, page_size=2, page_token="")
    assert [skill.name for skill in page] == ["do0", "do1"]
    page, token = await list_skills(**ask, page_size=2, page_token=token)
    assert ([skill.name for skill in page], token) == (["do4"], "")
    bench.policy.rules.clear()
    assert await list_skills(**ask, page_size=0, page_token="") == ([], "")
    with pytest.raises(SkillNotFound):
        await get_skill(registry, bench.policy, "do0")


async def test_a_stale_worker_is_refused(bench: Bench):
    """The lease epoch of another step of the same task counts too."""
    ready(bench)
    task = bench.scope()
    task = type(task)(**{name: getattr(task, name) for name in task.__slots__} | {"task_id": "task_1"})
    await bench.call("do", "step1", scope=task, epoch=2, name="a")
    with pytest.raises(EpochFenced):
        await bench.call("do", "step1", scope=task, epoch=1, name="a")
    with pytest.raises(EpochFenced):
        await bench.call("do", "step2", scope=task, epoch=1, name="b")
    assert (await bench.call("do", "step1", scope=task, epoch=3, name="a")).state == "SUCCEEDED"
    with pytest.raises(EpochFenced):
        await bench.call("do", "step1", scope=task, epoch=2, name="a")
    assert bench.upstream.effects == {"a": 1}


async def test_a_caller_who_leaves_does_not_undo_the_call(bench: Bench):
    ready(bench, "gate", timeout_s=10)
    replica = bench.replica()
    caller = asyncio.create_task(bench.call("do", replica=replica, name="a"))
    await asyncio.wait_for(bench.upstream.arrived.wait(), 10)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (await bench.call("do", wait_s=0.1, name="a")).state == "DISPATCHED"
    bench.upstream.gate.set()
    await replica.dispatcher.drain()
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"
    assert bench.upstream.effects == {"a": 1}


async def test_waiting_ends_with_the_row_as_it_stands(bench: Bench):
    ready(bench, "gate", timeout_s=10)
    replica = bench.replica()
    call = await bench.call("do", replica=replica, wait_s=0.3, name="a")
    assert call.state == "DISPATCHED"
    bench.upstream.gate.set()
    await replica.dispatcher.drain()
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"
