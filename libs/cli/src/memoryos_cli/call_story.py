"""One call as a story: asked, decided, reviewed, sent, what came of it, and what can be done next.

What is not this caller's to see is left out; what others wrote cannot be disguised (review_sheet.shown).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryos_sdk.calls import Call
from memoryos_sdk.decisions import Decision
from memoryos_sdk.reviews import Review

from memoryos_cli.output import moment
from memoryos_cli.review_sheet import relative, shown

STATES: Final[Mapping[str, str]] = {
    "intended": "decided, about to be sent",
    "parked": "waits for a person's approval",
    "dispatched": "sent, the answer is not known yet",
    "succeeded": "done",
    "failed": "not done",
    "unknown": "sent, and the answer was lost: it may or may not have happened",
    "denied": "refused, and never sent",
    "cancelled": "withdrawn, and never sent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A call, and of its decision and review what the caller may see."""

    call: Call
    decision: Decision | None = None
    review: Review | None = None


def story(told: Told, now: datetime) -> list[tuple[str, str]]:
    """Give the lines as names and texts, in the order of events."""
    call = told.call
    state = ": ".join(part for part in (call.state, STATES.get(call.state, "")) if part)
    lines = [
        ("state", state),
        ("asked", _asked(call, now)),
        ("changed", "its arguments, by policy, before they were decided on" if call.rewritten else ""),
        *_decided(told),
        *_reviewed(told, now),
        ("sent", sent(call)),
        ("ended", _ended(call)),
        ("answered by", "the fallback of the skill, for its upstream failed too often" if call.fallback else ""),
        ("why not", _why_not(call)),
        ("cut", f"the whole result has {call.full_result_bytes:,} bytes" if call.full_result_bytes else ""),
        ("trace", call.trace_id),
    ]
    return [(name, shown(text)) for name, text in lines if text]


def sent(call: Call) -> str:
    """Give how often it was sent, and when last."""
    if not call.dispatches:
        return "never" if call.ended else "not yet"
    if call.dispatches == 1:
        return f"once, {moment(call.dispatch_time)}"
    return f"{call.dispatches} times, last {moment(call.dispatch_time)}"


def next_steps(told: Told) -> list[tuple[str, str]]:
    """Give commands and what they do; none where nothing can follow."""
    call = told.call
    watch = (f"mos calls watch {call.id}", "follows it to its end")
    cancel = (f"mos calls cancel {call.id}", "withdraws it")
    if call.state in ("parked", "intended"):
        return [*_waiting(told), cancel] if call.state == "parked" else [watch, cancel]
    if call.state == "dispatched":
        return [watch]
    if call.state == "unknown":
        settle = f"mos calls reconcile {call.id}"
        return [
            (settle, "asks its upstream"),
            (f"{settle} --happened -m HOW-YOU-KNOW", "an operator says that it happened"),
            (f"{settle} --did-not-happen -m HOW-YOU-KNOW", "or that it did not"),
        ]
    if call.state == "denied" and call.decision_id:
        return [(f"mos decision explain {call.decision_id}", "says by which rules, to an auditor")]
    if call.state == "failed" and call.trace_id:
        return [(f"mos trace {call.trace_id}", "shows what happened")]
    if call.full_result_bytes and call.full_result is None:
        return [(f"mos calls show {call.id} --full", "shows the whole result")]
    return []


def _waiting(told: Told) -> list[tuple[str, str]]:
    call, review = told.call, told.review
    if review is None or review.state == "pending":
        return [(f"mos review show {call.review_id}", "shows what a person has to decide")] if call.review_id else []
    meaning = "brings it on, for it is approved" if review.state == "approved" else f"ends it: {review.state}"
    return [(f"mos call {shown(call.skill)} THE-SAME-ARGUMENTS --request-id THE-SAME", meaning)]


def _asked(call: Call, now: datetime) -> str:
    who = " → ".join((call.actor.user, *call.actor.agent_chain))
    what = f"{call.skill} {call.version}".strip() or "nothing: it was withdrawn before it came"
    when = f"{moment(call.create_time)} ({relative(call.create_time, now)})" if call.create_time else ""
    return ", ".join(part for part in (what, f"for {who}" if who else "", when) if part)


def _decided(told: Told) -> Iterator[tuple[str, str]]:
    decision = told.decision
    if decision is None:
        yield "decided", told.call.decision_id
        return
    risk = f", {decision.risk} risk" if decision.risk else ""
    yield "decided", f"{decision.effect}{risk} ({decision.id})"
    for reason in decision.reasons:
        yield "because", f"{reason.text} [{reason.code}]"


def _reviewed(told: Told, now: datetime) -> Iterator[tuple[str, str]]:
    review = told.review
    if review is None:
        yield "reviewed", told.call.review_id
        return
    until = f", counts as denied {relative(review.expire_time, now)}" if review.state == "pending" else ""
    approvals = sum(vote.verdict == "approve" for vote in review.votes)
    count = f", {approvals} of {review.quorum}" if review.votes else ""
    yield "reviewed", f"{review.state} by {review.group}{count}{until} ({review.id})"
    for vote in review.votes:
        yield vote.verdict, f"{vote.reviewer}: {vote.comment}" if vote.comment else vote.reviewer


def _ended(call: Call) -> str:
    if call.end_time is None:
        return ""
    if call.dispatch_time is None:
        return moment(call.end_time)
    return f"{moment(call.end_time)}, {(call.end_time - call.dispatch_time).total_seconds():.1f} s after it was sent"


def _why_not(call: Call) -> str:
    code = f"({call.error_code})" if call.error_code else ""
    return " ".join(part for part in (call.agent_message, code) if part)
