"""Obligations of a decision: met in their order, or the call is not made."""

import asyncio
import hashlib
import json
from dataclasses import replace

import pytest
from memoryos_testing.scopes import scope_of
from memoryos_toolgateway.adapters.journal_postgres import Quota
from memoryos_toolgateway.domain.decisions import Question
from memoryos_toolgateway.domain.obligations import NONE, Notice, Obligations, Patch, RateLimit
from memoryos_toolgateway.errors import CallDigestMismatch

from .bench import Bench, skill_document, write_skills
from .policies import allow, review

pytestmark = pytest.mark.integration
AT_MOST_10 = Obligations(rewrites=(Patch("/amount", 10),))


def ready(bench: Bench, obligations: object, behaviour: str = "echo", effect_class: str = "non_idempotent", **more):
    write_skills(bench.folder, skill_document("do", behaviour, effect_class, **more))
    bench.policy.rules["do"] = allow
    bench.policy.obligations["do"] = obligations


def capped(question: Question) -> Obligations:
    return AT_MOST_10 if json.loads(question.arguments).get("amount", 0) > 10 else NONE


async def test_changed_arguments_are_decided_again_and_run(bench: Bench):
    ready(bench, capped)
    done = await bench.call("do", name="a", amount=900)
    assert (done.state, done.result, done.rewritten) == ("SUCCEEDED", b'{"amount":10,"name":"a"}', True)
    first, second = bench.policy.asked
    assert (first.call_id, json.loads(second.arguments)["amount"]) == (second.call_id, 10)
    assert first.action_digest != second.action_digest
    (row,) = await bench.rows("SELECT action_digest_hmac, asked_digest_hmac FROM toolgateway.calls")
    assert row["asked_digest_hmac"] not in ("", row["action_digest_hmac"])
    assert await bench.call("do", name="a", amount=900) == done, "what was asked finds its call"
    with pytest.raises(CallDigestMismatch):
        await bench.call("do", name="a", amount=10)
    assert len(bench.upstream.requests) == 1


async def test_a_rewrite_that_changes_nothing_is_met(bench: Bench):
    ready(bench, AT_MOST_10)
    done = await bench.call("do", name="a", amount=10)
    assert (done.state, done.rewritten, len(bench.policy.asked)) == ("SUCCEEDED", False, 1)
    assert (await bench.call("do", "r2", name="a", amount=11)).state == "SUCCEEDED", "met after the first change"


@pytest.mark.parametrize(
    ("obligations", "code"),
    [
        (lambda q: Obligations(rewrites=(Patch("/amount", json.loads(q.arguments)["amount"] + 1),)), "rewrite_again"),
        (Obligations(rewrites=(Patch("/amount", "much"),)), "rewrite_invalid"),
        (Obligations(rewrites=(Patch("/undeclared", 1),)), "rewrite_invalid"),
        (Obligations(rewrites=(Patch("/no/such/place", 1),)), "rewrite_invalid"),
        (Obligations(rewrites=(Patch("/note", "x" * 262_144),)), "rewrite_invalid"),
        (None, "obligation_unknown"),
        (Obligations(sandbox=True), "sandbox_unavailable"),
        (Obligations(read_only=True), "read_only"),
        (Obligations(notices=(Notice("nobody", ""),)), "channel_unknown"),
    ],
)  # fmt: skip
async def test_what_cannot_be_met_denies(bench: Bench, obligations: object, code: str):
    ready(bench, obligations)
    call = await bench.call("do", name="a", amount=1)
    assert (call.state, call.error_code, call.agent_message) == ("DENIED", code, "This call is not allowed.")
    assert bench.upstream.requests == []


async def test_a_reader_may_go_ahead_where_only_readers_may(bench: Bench):
    ready(bench, Obligations(read_only=True), effect_class="read")
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"


async def test_what_was_changed_is_what_is_reviewed_and_runs(bench: Bench):
    ready(bench, capped)
    bench.policy.rules["do"] = review
    parked = await bench.call("do", name="a", amount=900)
    assert (parked.state, parked.rewritten) == ("PARKED", True)
    assert bench.policy.reviews[parked.id].action_digest == bench.policy.asked[-1].action_digest
    bench.policy.resolve(parked.id, "approved")
    assert (await bench.call("do", name="a", amount=900)).result == b'{"amount":10,"name":"a"}'


async def test_a_rewrite_after_the_review_denies(bench: Bench):
    """H2: the rules would change what a person has approved."""
    ready(bench, NONE)
    bench.policy.rules["do"] = review
    parked = await bench.call("do", name="a", amount=900)
    bench.policy.resolve(parked.id, "approved")
    bench.policy.obligations["do"] = AT_MOST_10
    ended = await bench.call("do", name="a", amount=900)
    assert (ended.state, ended.error_code) == ("DENIED", "rewrite_again")
    assert bench.upstream.requests == []


async def test_results_are_masked_before_they_are_kept(bench: Bench):
    ready(bench, Obligations(pointers=("/items/*/owner",), detectors=frozenset({"phone", "secret"})), "say")
    said = {
        "items": [{"owner": "Zhang", "n": 1}, {"owner": "Li", "n": 2}],
        "text": "电话１３８１２３４５６７８，密码：hunter2!",
        "password": "correct horse", "13812345678": 13812345678,
    }  # fmt: skip
    bench.upstream.says = json.dumps(said).encode()
    call = await bench.call("do", name="a")
    kept = call.result.decode()
    assert json.loads(kept)["items"] == [{"owner": "[redacted]", "n": 1}, {"owner": "[redacted]", "n": 2}]
    for hidden in ("Zhang", "13812345678", "１３８", "hunter2", "correct horse"):
        assert hidden not in kept
    assert await bench.call("do", name="a") == call


async def test_pointers_into_what_is_no_json_hide_all_of_it(bench: Bench):
    ready(bench, Obligations(pointers=("/owner",)), "say")
    bench.upstream.says = b"owner: Zhang"
    assert json.loads((await bench.call("do", name="a")).result) == {"text": "[redacted]"}


def rated(limit: float, cost: float = 1.0, key: str = "k", window_s: int = 60) -> RateLimit:
    return RateLimit(key, limit, window_s, cost)


async def test_two_replicas_cannot_both_take_the_last_unit(bench: Bench):
    ready(bench, Obligations(rates=(rated(3),)), "ok")
    replicas = [bench.replica(), bench.replica()]
    calls = await asyncio.gather(*(bench.call("do", f"r{n}", replica=replicas[n % 2], name=f"n{n}") for n in range(10)))
    states = sorted(call.state for call in calls)
    assert states == ["FAILED"] * 7 + ["SUCCEEDED"] * 3
    assert sum(bench.upstream.effects.values()) == 3
    failed = next(call for call in calls if call.state == "FAILED")
    assert (failed.error_code, failed.dispatches) == ("rate_limited", 0)
    assert "Do not try again before 60 s" in failed.agent_message
    await bench.rows("UPDATE toolgateway.rate_windows SET end_time = clock_timestamp() RETURNING 1 AS one")
    assert (await bench.call("do", "later", name="later")).state == "SUCCEEDED"


async def test_a_budget_is_exact_and_taken_by_what_is_sent_only(bench: Bench):
    ready(bench, Obligations(rates=(rated(0.3, 0.1, "budget"), rated(100, key="calls"))), "ok")
    for number in range(3):
        assert (await bench.call("do", f"r{number}", name="a")).state == "SUCCEEDED"
    assert (await bench.call("do", "r3", name="a")).error_code == "rate_limited"
    rows = await bench.rows("SELECT used::float8 AS used FROM toolgateway.rate_windows ORDER BY used")
    assert [row["used"] for row in rows] == [0.3, 3], "the refused call has taken nothing of the other limit either"


async def test_what_was_not_sent_is_given_back(bench: Bench):
    ready(bench, Obligations(rates=(rated(2), rated(9, 0.5, "budget"))), "ok", attempts=1)
    away = bench.replica(endpoint="127.0.0.1:1")
    assert (await bench.call("do", "r0", name="a")).state == "SUCCEEDED"
    assert (await bench.call("do", "r1", replica=away, name="a")).error_code == "not_sent"
    rows = await bench.rows("SELECT used::float8 AS used FROM toolgateway.rate_windows ORDER BY used")
    assert [row["used"] for row in rows] == [0.5, 1]
    assert (await bench.call("do", "r2", name="a")).state == "SUCCEEDED"
    await bench.rows("UPDATE toolgateway.rate_windows SET end_time = clock_timestamp() RETURNING 1 AS one")
    assert (await bench.call("do", "r3", replica=away, name="a")).error_code == "not_sent"
    rows = await bench.rows("SELECT used::float8 AS used FROM toolgateway.rate_windows")
    assert [row["used"] for row in rows] == [0, 0], "also what began a window"


async def test_another_tenant_has_its_own_count(bench: Bench):
    ready(bench, Obligations(rates=(rated(1),)), "ok")
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"
    assert (await bench.call("do", name="a", scope=bench.scope("-other"))).state == "SUCCEEDED"


async def test_an_approval_waits_for_the_rate(bench: Bench):
    ready(bench, Obligations(rates=(rated(1),)), "ok")
    bench.policy.rules["do"] = review
    parked = [await bench.call("do", f"r{n}", name=f"n{n}") for n in range(2)]
    for call in parked:
        bench.policy.resolve(call.id, "approved")
    assert (await bench.call("do", "r0", name="n0")).state == "SUCCEEDED"
    waits = await bench.call("do", "r1", name="n1")
    assert (waits.state, waits.error_code) == ("PARKED", "rate_limited")
    await bench.rows("UPDATE toolgateway.rate_windows SET end_time = clock_timestamp() RETURNING 1 AS one")
    assert (await bench.call("do", "r1", name="n1")).state == "SUCCEEDED"


async def test_a_long_result_is_cut_and_its_whole_kept_for_its_user(bench: Bench):
    ready(bench, Obligations(output_limit_bytes=400, detectors=frozenset({"email"})), "say")
    said = json.dumps({"rows": ["héllo li@example.com"] * 200, "end": "尾"}, ensure_ascii=False).encode()
    bench.upstream.says = said
    call = await bench.call("do", name="a")
    assert len(call.result) <= 400
    text = json.loads(call.result)["text"]
    assert "bytes left out" in text
    assert text.startswith('{"end":"尾"')
    assert text.endswith('"]}')
    whole = await bench.journal.full_result(bench.scope(), call)
    assert b"li@example.com" not in whole
    assert (len(whole), hashlib.sha256(whole).hexdigest()) == (call.full_result_bytes, call.full_result_sha256)
    (row,) = await bench.rows("SELECT content, user_name FROM toolgateway.full_results")
    assert "héllo".encode() not in row["content"]


async def test_whole_results_have_a_quota_and_an_end(bench: Bench):
    bench.quota = Quota(user_bytes_max=3000, tenant_bytes_max=4000, hours=1)
    ready(bench, Obligations(output_limit_bytes=300), "say")
    bench.upstream.says = json.dumps({"t": "x" * 1400}).encode()
    calls = [await bench.call("do", f"r{n}", name="a") for n in range(3)]
    other = await bench.call("do", "r9", name="a", scope=scope_of(bench.tenant, user="u7"))
    kept = [await bench.journal.full_result(bench.scope(), call) for call in (*calls, other)]
    assert [bool(whole) for whole in kept] == [True, True, False, False]
    assert all(call.full_result_bytes > 1400 for call in calls), "what was cut says so, kept or not"
    async with bench.database.tenant(bench.tenant) as tx:
        await tx.execute("DELETE FROM toolgateway.full_results")
    assert await bench.journal.full_result(bench.scope(), calls[0]) == b""


async def facts(bench: Bench) -> set[tuple[str, str, str]]:
    rows = await bench.rows("SELECT holder, fact, source FROM core.session_facts")
    return {(row["holder"], row["fact"], row["source"]) for row in rows}


async def test_sessions_remember_what_results_bring(bench: Bench):
    ready(bench, Obligations(taints=frozenset({"personal_data"})), "ok", returns=["untrusted"])
    here = replace(bench.scope(), session_id="ses_1")
    await bench.call("do", name="a", scope=here)
    first = {("ses_1", "untrusted_content", "skill:do"), ("ses_1", "personal_data", "skill:do")}
    assert await facts(bench) == first
    await bench.call("do", name="a", scope=replace(here, session_id="ses_2"))
    assert {holder for holder, _, _ in await facts(bench)} == {"ses_1", "ses_2"}, "a second reader has seen it, too"
    (row,) = await bench.rows("SELECT id FROM toolgateway.calls")
    await bench.journal.get(replace(here, session_id="ses_3"), row["id"], with_contents=True)
    assert {holder for holder, _, _ in await facts(bench)} == {"ses_1", "ses_2", "ses_3"}
    await bench.journal.get(replace(here, session_id="ses_4"), row["id"], with_contents=False)
    assert "ses_4" not in {holder for holder, _, _ in await facts(bench)}


async def test_a_call_that_gave_nothing_brings_nothing(bench: Bench):
    ready(bench, Obligations(taints=frozenset({"personal_data"})), "status-404", returns=["untrusted"])
    assert (await bench.call("do", name="a", scope=replace(bench.scope(), session_id="ses_1"))).state == "FAILED"
    assert await facts(bench) == set()


async def test_who_is_to_be_told_is_told_of_the_end(lone_bench: Bench):
    bench = lone_bench
    ready(bench, Obligations(notices=(Notice("team", "Refunded."), Notice("team", "Again."))), "gate", timeout_s=10)
    replica = bench.replica()
    sent = await bench.call("do", replica=replica, name="a", wait_s=0.3)
    assert sent.state == "DISPATCHED"
    assert await bench.outbox.due(10) == [], "not before the end"
    bench.upstream.gate.set()
    await replica.dispatcher.drain()
    told = await bench.outbox.due(10)
    assert sorted((one.text, one.state, one.tries) for one in told) == [
        ("Again.", "SUCCEEDED", 1), ("Refunded.", "SUCCEEDED", 1),
    ]  # fmt: skip
    assert await bench.outbox.due(10) == [], "leased by the one who sends"
    await bench.outbox.done(told[0])
    await bench.outbox.later(told[1], 0)
    (again,) = await bench.outbox.due(10)
    assert (again.id, again.tries) == (told[1].id, 2), "at least once"
    await bench.outbox.done(again)
    assert await bench.rows("SELECT 1 FROM toolgateway.notices") == []


async def test_a_refused_call_is_told_of_too(lone_bench: Bench):
    bench = lone_bench
    ready(bench, Obligations(notices=(Notice("team", "Tried."),), sandbox=True), "ok")
    assert (await bench.call("do", name="a")).state == "DENIED"
    (told,) = await bench.outbox.due(10)
    assert (told.text, told.state, told.skill) == ("Tried.", "DENIED", "do")
