"""A call as a story: in the order of events, with what can be done next, and nothing that can be disguised."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memoryos.toolgateway.v1 import tool_gateway_pb2
from memoryos_cli.call_story import STATES, Told, next_steps, sent, story
from memoryos_cli.output import moment
from memoryos_sdk.calls import Actor, Call
from memoryos_sdk.decisions import Decision, Reason
from memoryos_sdk.reviews import Review, Vote

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ACTOR = Actor(user="张伟", agent_chain=("helper",))


def call(state: str, **more: Any) -> Call:
    fields: dict[str, Any] = {
        "id": "call_1", "skill": "refund.create", "version": "3", "state": state, "result": None, "error_code": "",
        "agent_message": "", "decision_id": "dec_1", "review_id": "", "action_digest_hmac": "", "actor": ACTOR,
        "create_time": NOW - timedelta(minutes=3), "dispatch_time": None, "end_time": None, "trace_id": "t1",
    }  # fmt: skip
    return Call(**{**fields, **more})


def decision(effect: str = "allow", **more: Any) -> Decision:
    fields: dict[str, Any] = {
        "id": "dec_1", "effect": effect, "reasons": (), "agent_message": "", "approvals": (), "bundle_revision": "",
        "bundle_age": timedelta(), "create_time": NOW, "call_id": "call_1", "skill": "refund.create",
        "action_digest_hmac": "", "actor": ACTOR, "trace_id": "t1", "review_id": "", "risk": "high",
        "session_id": "", "task_id": "",
    }  # fmt: skip
    return Decision(**{**fields, **more})


def review(state: str, **more: Any) -> Review:
    fields: dict[str, Any] = {
        "id": "rev_1", "call_id": "call_1", "decision_id": "dec_1", "state": state, "group": "finance", "quorum": 2,
        "requester": ACTOR, "skill": "refund.create", "arguments": None, "action_digest_hmac": "", "votes": (),
        "create_time": NOW, "expire_time": NOW + timedelta(minutes=14), "resolve_time": None, "etag": "1",
        "reasons": (), "skill_version": "3", "effect_class": "keyed", "risk": "high", "resource_type": "",
        "resource_id": "",
    }  # fmt: skip
    return Review(**{**fields, **more})


def commands(told: Told) -> list[str]:
    return [wanted for wanted, _ in next_steps(told)]


def test_a_call_that_was_reviewed_and_sent_reads_in_the_order_of_events():
    at = NOW - timedelta(seconds=10)
    reason = Reason(code="above_limit", policy="memoryos.skills", text="The amount is above the limit.")
    votes = (
        Vote(reviewer="anna", verdict="approve", comment="客户已确认", create_time=NOW),
        Vote(reviewer="otto", verdict="approve", comment="", create_time=NOW),
    )
    told = Told(
        call=call(
            "succeeded", result={"id": 1}, review_id="rev_1", dispatches=1, dispatch_time=at, rewritten=True,
            end_time=at + timedelta(seconds=1.5),
        ),
        decision=decision("manual_review", reasons=(reason,)),
        review=review("approved", votes=votes),
    )  # fmt: skip
    assert story(told, NOW) == [
        ("state", "succeeded: done"),
        ("asked", f"refund.create 3, for 张伟 → helper, {moment(NOW - timedelta(minutes=3))} (3 min ago)"),
        ("changed", "its arguments, by policy, before they were decided on"),
        ("decided", "manual_review, high risk (dec_1)"),
        ("because", "The amount is above the limit. [above_limit]"),
        ("reviewed", "approved by finance, 2 of 2 (rev_1)"),
        ("approve", "anna: 客户已确认"),
        ("approve", "otto"),
        ("sent", f"once, {moment(at)}"),
        ("ended", f"{moment(at + timedelta(seconds=1.5))}, 1.5 s after it was sent"),
        ("trace", "t1"),
    ]
    assert next_steps(told) == []


def test_what_is_not_the_callers_to_see_is_a_name_only():
    lines = dict(story(Told(call=call("parked", review_id="rev_1")), NOW))
    assert (lines["decided"], lines["reviewed"], lines["sent"]) == ("dec_1", "rev_1", "not yet")
    lines = dict(story(Told(call=call("parked"), review=review("pending")), NOW))
    assert lines["reviewed"] == "pending by finance, counts as denied in 14 min (rev_1)"
    assert "because" not in lines


def test_why_a_call_came_to_nothing():
    denied = call("denied", error_code="denied", agent_message="Not without approval.", end_time=NOW)
    lines = dict(story(Told(call=denied), NOW))
    assert (lines["why not"], lines["sent"], lines["ended"]) == ("Not without approval. (denied)", "never", moment(NOW))
    unseen = call(
        "cancelled", skill="", version="", decision_id="", error_code="cancelled",
        actor=Actor(user="u", agent_chain=()), end_time=NOW,
    )  # fmt: skip
    lines = dict(story(Told(call=unseen), NOW))
    assert lines["asked"].startswith("nothing: it was withdrawn before it came, for u")
    assert "decided" not in lines


def test_how_often_it_was_sent():
    assert sent(call("unknown", dispatches=3, dispatch_time=NOW)) == f"3 times, last {moment(NOW)}"
    assert sent(call("intended")) == "not yet"
    assert sent(call("cancelled")) == "never"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (Told(call=call("intended")), ["mos calls watch call_1", "mos calls cancel call_1"]),
        (Told(call=call("parked", review_id="rev_1")), ["mos review show rev_1", "mos calls cancel call_1"]),
        (
            Told(call=call("parked", review_id="rev_1"), review=review("approved")),
            ["mos call refund.create THE-SAME-ARGUMENTS --request-id THE-SAME", "mos calls cancel call_1"],
        ),
        (Told(call=call("dispatched")), ["mos calls watch call_1"]),
        (
            Told(call=call("unknown")),
            [
                "mos calls reconcile call_1",
                "mos calls reconcile call_1 --happened -m HOW-YOU-KNOW",
                "mos calls reconcile call_1 --did-not-happen -m HOW-YOU-KNOW",
            ],
        ),
        (Told(call=call("denied")), ["mos decision explain dec_1"]),
        (Told(call=call("failed")), ["mos trace t1"]),
        (Told(call=call("succeeded", result={}, full_result_bytes=9)), ["mos calls show call_1 --full"]),
        (Told(call=call("succeeded", result={}, full_result_bytes=9, full_result={})), []),
        (Told(call=call("cancelled")), []),
    ],
)
def test_what_can_be_done_next(told: Told, expected: list[str]):
    assert commands(told) == expected


def test_every_state_of_the_journal_has_words():
    assert {f"CALL_STATE_{name.upper()}" for name in STATES} == set(tool_gateway_pb2.CallState.keys()) - {
        "CALL_STATE_UNSPECIFIED"
    }


def test_a_fallback_and_a_cut_result_are_said():
    lines = dict(story(Told(call=call("succeeded", fallback=True, full_result_bytes=70_000)), NOW))
    assert "fallback" in lines["answered by"]
    assert lines["cut"] == "the whole result has 70,000 bytes"


def test_nothing_on_it_can_be_disguised():
    vote = Vote(reviewer="anna\u200b", verdict="deny", comment="ok\n\u202estate  succeeded", create_time=NOW)
    told = Told(
        call=call("denied", actor=Actor(user="u\u202e", agent_chain=()), agent_message="a\nstate  succeeded"),
        review=review("denied", votes=(vote,)),
    )
    text = "".join(line for _, line in story(told, NOW))
    assert not {"\n", "\u202e", "\u200b"} & set(text)
    assert "\\n\\u202estate" in text
