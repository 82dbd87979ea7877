"""Calls that wait for a person: bound to the call, once, and asked again right before (H1–H4, I4)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Call, CallState
from memoryos_toolgateway.domain.decisions import Action, Question, Verdict
from memoryos_toolgateway.errors import CallDigestMismatch, PolicyUnavailable
from memoryos_toolgateway.ports import Dispatch

from .bench import Bench, skill_document, write_skills
from .policies import allow, deny, review

pytestmark = pytest.mark.integration


async def parked(bench: Bench, behaviour: str = "ok", effect_class: str = "non_idempotent") -> Call:
    write_skills(bench.folder, skill_document("do", behaviour, effect_class))
    bench.policy.rules["do"] = review
    call = await bench.call("do", name="a")
    assert (call.state, call.review_id) == ("PARKED", bench.policy.reviews[call.id].id)
    return call


async def test_an_approved_call_runs_once(bench: Bench):
    call = await parked(bench)
    assert await bench.call("do", name="a") == call
    bench.policy.resolve(call.id, "approved")
    done = await bench.call("do", name="a")
    assert (done.state, done.review_id) == ("SUCCEEDED", call.review_id)
    for _ in range(3):
        assert await bench.call("do", name="a") == done
    assert bench.upstream.effects == {"a": 1}
    (row,) = await bench.rows("SELECT approval_used FROM toolgateway.calls")
    assert row["approval_used"]
    steps = [
        row["state"] for row in await bench.rows("SELECT attributes->>'state' AS state FROM core.audit ORDER BY seq")
    ]
    assert steps == ["parked", "resumed", "succeeded"]


async def test_a_denied_review_denies_for_good(bench: Bench):
    call = await parked(bench)
    bench.policy.resolve(call.id, "denied")
    assert (await bench.call("do", name="a")).state == "DENIED"
    bench.policy.resolve(call.id, "approved")
    assert (await bench.call("do", name="a")).state == "DENIED"
    assert bench.upstream.requests == []


async def test_an_approval_is_for_one_call(bench: Bench):
    """H1: other arguments, another request, missing and null."""
    call = await parked(bench)
    bench.policy.resolve(call.id, "approved")
    assert (await bench.call("do", "r2", name="a")).state == "PARKED"
    assert (await bench.call("do", "r3", name="b")).state == "PARKED"
    assert bench.upstream.requests == []
    with pytest.raises(CallDigestMismatch):
        await bench.call("do", name="b")
    with pytest.raises(CallDigestMismatch):
        await bench.call("do", name="a", note="")


async def test_the_kept_arguments_run(bench: Bench):
    """H2: what waited is what runs; a changed request is refused and changes nothing."""
    write_skills(bench.folder, skill_document("do", "echo"))
    bench.policy.rules["do"] = review
    call = await bench.raw("do", b'{"name":"a","note":"kept","amount":1.0}')
    bench.policy.resolve(call.id, "approved")
    with pytest.raises(CallDigestMismatch):
        await bench.call("do", name="a", note="changed", amount=1.0)
    done = await bench.raw("do", b'{ "amount": 1.0, "note": "kept", "name": "a" }')
    assert done.result == b'{"amount":1.0,"name":"a","note":"kept"}'


async def test_kept_arguments_that_were_tampered_with_do_not_run(bench: Bench):
    call = await parked(bench)
    bench.policy.resolve(call.id, "approved")
    await bench.rows("UPDATE toolgateway.calls SET review_id = '' RETURNING id")
    swapped = type(call)(**{name: getattr(call, name) for name in call.__slots__} | {"arguments": b'{"name":"b"}'})
    verdict = Verdict(action=Action.SEND, decision_id="dec_x", review_id=call.review_id)
    assert (
        await bench.journal.dispatch(bench.scope(), swapped, Dispatch(verdict=verdict, allowance_s=5, timeout_s=1))
        is None
    )


async def test_policy_is_asked_again_right_before(bench: Bench):
    """H3: the rules deny by now."""
    call = await parked(bench)
    bench.policy.resolve(call.id, "approved")
    bench.policy.rules["do"] = deny
    denied = await bench.call("do", name="a")
    assert (denied.state, denied.error_code) == ("DENIED", "denied")
    assert bench.upstream.requests == []


async def test_policy_that_does_not_answer_then_leaves_the_call_parked(bench: Bench):
    call = await parked(bench)
    bench.policy.resolve(call.id, "approved")
    bench.policy.down = True
    with pytest.raises(PolicyUnavailable):
        await bench.call("do", name="a")
    bench.policy.down = False
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"


async def test_an_engine_that_is_away_then_leaves_the_call_parked(bench: Bench):
    """A deny that no rule gave sends nothing and does not throw the approval away."""
    call = await parked(bench)
    bench.policy.resolve(call.id, "approved")
    bench.policy.engine_away = True
    with pytest.raises(PolicyUnavailable):
        await bench.call("do", name="a")
    bench.policy.engine_away = False
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"


@pytest.mark.parametrize("change", ["withdrawn", "changed", "moved"])
async def test_a_skill_that_changed_meanwhile_is_denied(bench: Bench, change: str):
    """H3, X2: the definition that was approved is the one that runs, or none."""
    call = await parked(bench)
    bench.policy.resolve(call.id, "approved")
    if change == "withdrawn":
        (bench.folder / "do.yaml").unlink()
    elif change == "changed":
        write_skills(bench.folder, skill_document("do", "ok", description="Other now."))
    else:
        write_skills(bench.folder, skill_document("do", "echo"))
    denied = await bench.call("do", name="a")
    assert (denied.state, denied.error_code) == ("DENIED", messages.CHANGED_CODE)
    assert bench.upstream.requests == []
    assert await bench.call("do", name="a") == denied


async def test_the_resource_is_looked_up_again_before_it_runs(bench: Bench):
    resource = {"type": "ticket", "id": "/name", "lookup": {"endpoint": "${UPSTREAM}", "path": "/tickets/{name}"}}
    write_skills(bench.folder, skill_document("do", "ok", resource=resource))

    def rule(question: Question) -> object:
        return review(question) if b'"test"' in question.resource.properties else deny(question)

    bench.policy.rules["do"] = rule
    bench.upstream.tickets["a"] = {"kind": "test"}
    call = await bench.call("do", name="a")
    assert call.state == "PARKED"
    bench.policy.resolve(call.id, "approved")
    bench.upstream.tickets["a"] = {"kind": "production"}
    assert (await bench.call("do", name="a")).state == "DENIED"
    assert [question.resource.properties for question in bench.policy.asked] == [
        b'{"kind":"test"}', b'{"kind":"production"}',
    ]  # fmt: skip


async def test_a_lookup_that_fails_leaves_properties_out(bench: Bench):
    for number, path in enumerate(("/status-500/{name}", "/drop/{name}", "/redirect/{name}", "/big/{name}", "/hang/x")):
        resource = {
            "type": "ticket", "id": "/name", "lookup": {"endpoint": "${UPSTREAM}", "path": path, "timeout_s": 0.5},
        }  # fmt: skip
        write_skills(bench.folder, skill_document(f"do{number}", "ok", resource=resource))
        bench.policy.rules[f"do{number}"] = lambda question: (deny if not question.resource.properties else allow)(
            question
        )
    replica = bench.replica()
    for number in range(5):
        assert (await bench.call(f"do{number}", f"r{number}", replica=replica, name="a")).state == "DENIED"


async def test_many_resumes_at_once_run_it_once(bench: Bench):
    """H4, I4: one compare-and-set uses the approval up."""
    call = await parked(bench)
    bench.policy.resolve(call.id, "approved")
    bench.policy.deciding = asyncio.Event()
    replicas = [bench.replica() for _ in range(3)]
    callers = [asyncio.create_task(bench.call("do", replica=replicas[n % 3], name="a")) for n in range(9)]
    async with asyncio.timeout(20):
        # All stand between their decision and their compare-and-set.
        await bench.policy.wait_asked(1 + 9)
    bench.policy.deciding.set()
    states = {(await caller).state for caller in callers}
    assert states == {"SUCCEEDED"}
    assert bench.upstream.effects == {"a": 1}


async def test_an_approval_covers_one_dispatch_even_where_repeating_is_harmless(bench: Bench):
    call = await parked(bench, "drop", "idempotent")
    bench.policy.resolve(call.id, "approved")
    first = await bench.call("do", name="a")
    effects = bench.upstream.effects["a"]
    assert first.state == "UNKNOWN"
    assert (await bench.call("do", name="a")).state == "UNKNOWN"
    assert bench.upstream.effects["a"] == effects


async def test_a_review_that_could_not_be_opened_is_opened_by_the_next_call(bench: Bench):
    write_skills(bench.folder, skill_document("do", "ok"))
    bench.policy.rules["do"] = review
    opened, bench.policy.open_review = bench.policy.open_review, unavailable
    with pytest.raises(PolicyUnavailable):
        await bench.call("do", name="a")
    bench.policy.open_review = opened
    call = await bench.call("do", name="a")
    assert (call.state, call.review_id) == ("PARKED", bench.policy.reviews[call.id].id)


async def test_a_review_approved_before_its_id_was_journaled_is_not_lost(bench: Bench):
    """Killed between OpenReview and the row: a person approves what they see, and the approval counts."""
    write_skills(bench.folder, skill_document("do", "ok"))
    bench.policy.rules["do"] = review
    opened, bench.policy.open_review = bench.policy.open_review, answer_lost(bench.policy.open_review)
    with pytest.raises(PolicyUnavailable):
        await bench.call("do", name="a")
    bench.policy.open_review = opened
    (call_id,) = bench.policy.reviews
    bench.policy.resolve(call_id, "approved")
    done = await bench.call("do", name="a")
    assert (done.state, done.review_id) == ("SUCCEEDED", bench.policy.reviews[call_id].id)
    assert bench.upstream.effects == {"a": 1}
    assert await bench.rows("SELECT approval_used FROM toolgateway.calls") == [{"approval_used": True}]


async def test_a_review_denied_before_its_id_was_journaled_denies(bench: Bench):
    write_skills(bench.folder, skill_document("do", "ok"))
    bench.policy.rules["do"] = review
    opened, bench.policy.open_review = bench.policy.open_review, answer_lost(bench.policy.open_review)
    with pytest.raises(PolicyUnavailable):
        await bench.call("do", name="a")
    bench.policy.open_review = opened
    (call_id,) = bench.policy.reviews
    bench.policy.resolve(call_id, "denied")
    assert (await bench.call("do", name="a")).state == "DENIED"
    assert bench.upstream.requests == []


async def test_a_parking_that_comes_late_leaves_the_review_of_the_call(bench: Bench):
    """Two callers park one call: what the first wrote stays when the second knows of no review yet."""
    call = await parked(bench)
    late = Verdict(action=Action.PARK, decision_id="dec_late")
    again = await bench.journal.park(bench.scope(), call, late)
    assert again is not None
    assert again.review_id == call.review_id


async def test_a_deny_of_who_knew_of_no_review_denies_nothing(bench: Bench):
    """The verdict was given for the row as it was; by now its review may be approved."""
    call = await parked(bench)
    verdict = Verdict(action=Action.DENY, decision_id="dec_late", error_code="denied")
    for stale in ({"review_id": ""}, {"review_id": "", "state": CallState.INTENDED}):
        assert await bench.journal.deny(bench.scope(), replace(call, **stale), verdict) is None
    bench.policy.resolve(call.id, "approved")
    assert (await bench.call("do", name="a")).state == "SUCCEEDED"


def answer_lost(open_review: Callable[[str, str, str], Awaitable[str]]) -> Callable[[str, str, str], Awaitable[str]]:
    async def lost(call_id: str, action_digest: str, decision_id: str) -> str:
        await open_review(call_id, action_digest, decision_id)
        raise PolicyUnavailable

    return lost


async def unavailable(*_: object) -> str:
    raise PolicyUnavailable
