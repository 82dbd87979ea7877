"""Decisions: what policy said about each call, and for auditors why."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from memoryos.policy.v1 import policy_pb2

from memoryos_sdk.calls import Actor, actor
from memoryos_sdk.entries import json_value
from memoryos_sdk.following import resumed
from memoryos_sdk.invocation import Invocation
from memoryos_sdk.names import number, word
from memoryos_sdk.paging import Pager
from memoryos_sdk.times import Range, moment, timestamp

EXPLAIN_S: Final = 30.0
"""An engine is started for it."""
_VIEWS: Final = {False: policy_pb2.DECISION_VIEW_BASIC, True: policy_pb2.DECISION_VIEW_INPUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason, for auditors only."""

    code: str
    policy: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The obligation that a person must approve."""

    group: str
    quorum: int
    expires_in: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One kept decision; `effect` is allow, deny or manual_review."""

    id: str
    effect: str
    reasons: tuple[Reason, ...]
    agent_message: str
    approvals: tuple[Approval, ...]
    bundle_revision: str
    bundle_age: timedelta
    create_time: datetime | None
    call_id: str
    skill: str
    action_digest_hmac: str
    actor: Actor
    trace_id: str
    review_id: str
    risk: str
    session_id: str
    task_id: str
    input: Any = None
    """What the rules saw, masked; only where it was asked for, by a person who audits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FiredRule:
    """A rule that was true: its file within the bundle, the line of its head from 1, and the head as written."""

    file: str
    line: int
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision as it was kept, what the same rules say of the same input now, and which of them were true."""

    kept: Decision
    again: Decision
    same: bool
    fired: tuple[FiredRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionEvent:
    """A decision as it was kept, and the position to go on from behind it."""

    decision: Decision
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Which decisions; what is left out asks for nothing.

    `between` is a half-open pair of times, either None. `reason_code` and
    `policy` say which rule spoke; they, and the `user` of others, are for auditors.
    """

    user: str = ""
    skill: str = ""
    effect: str | None = None
    reason_code: str = ""
    policy: str = ""
    between: Range = (None, None)
    call_id: str = ""
    trace_id: str = ""
    review_id: str = ""


EVERY: Final = DecisionFilter()


class Decisions:
    """Kept decisions of policy."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def get(self, id: str, *, with_input: bool = False, timeout_s: float | None = None) -> Decision:
        """Give one decision; its input to people who audit, which is itself audited."""
        request = policy_pb2.GetDecisionRequest(id=id, view=_VIEWS[with_input])
        return decision((await self._invocation.unary(self._stub.GetDecision, request, timeout_s=timeout_s)).decision)

    def list(self, wanted: DecisionFilter = EVERY, *, with_input: bool = False, page_size: int = 50) -> Pager[Decision]:
        """Give decisions, newest first."""
        request = policy_pb2.ListDecisionsRequest(
            page_size=page_size,
            view=_VIEWS[with_input],
            user=wanted.user,
            skill=wanted.skill,
            reason_code=wanted.reason_code,
            policy=wanted.policy,
            call_id=wanted.call_id,
            trace_id=wanted.trace_id,
            review_id=wanted.review_id,
        )
        if wanted.effect is not None:
            request.effect = number(policy_pb2.Effect, wanted.effect, "effect")
        for field, time in zip(("from_time", "until_time"), wanted.between, strict=True):
            if time is not None:
                getattr(request, field).CopyFrom(timestamp(time, self._invocation.zone, field))

        async def fetch(token: str) -> tuple[list[Decision], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListDecisions, request)
            return [decision(found) for found in answer.decisions], answer.next_page_token

        return Pager(fetch)

    async def watch(self, *, effect: str | None = None, position: str = "") -> AsyncGenerator[DecisionEvent, None]:
        """Give decisions as they are kept, without end; a lost connection is taken up where it broke.

        Keep the `position` of the last event handled, and give it back to go on after it.
        """
        asked = policy_pb2.WatchDecisionsRequest()
        if effect is not None:
            asked.effect = number(policy_pb2.Effect, effect, "effect")

        def open_at(at: str) -> AsyncGenerator[Any, None]:
            request = policy_pb2.WatchDecisionsRequest(effect=asked.effect, position=at)
            return self._invocation.stream(self._stub.WatchDecisions, request)

        async with aclosing(resumed(self._invocation, open_at, position)) as messages:
            async for message in messages:
                if message.HasField("decision"):
                    yield DecisionEvent(decision=decision(message.decision), position=message.position)

    async def explain(self, id: str, *, timeout_s: float | None = None) -> Explanation:
        """Ask the rules that decided once more, for people who audit."""
        request = policy_pb2.ExplainDecisionRequest(id=id)
        answer = await self._invocation.unary(self._stub.ExplainDecision, request, timeout_s=timeout_s or EXPLAIN_S)
        return Explanation(
            kept=decision(answer.kept),
            again=decision(answer.again),
            same=answer.same,
            fired=tuple(FiredRule(file=one.file, line=one.line, head=one.head) for one in answer.fired),
        )


def decision(message: policy_pb2.Decision) -> Decision:
    """Give the value of a Decision message."""
    return Decision(
        id=message.id,
        effect=word(policy_pb2.Effect, message.effect),
        reasons=tuple(Reason(code=r.code, policy=r.policy, text=r.text) for r in message.reasons),
        agent_message=message.agent_message,
        approvals=tuple(
            Approval(group=o.approval.group, quorum=o.approval.quorum, expires_in=o.approval.expires_in.ToTimedelta())
            for o in message.obligations
            if o.HasField("approval")
        ),
        bundle_revision=message.bundle_revision,
        bundle_age=message.bundle_age.ToTimedelta(),
        create_time=moment(message, "create_time"),
        call_id=message.call_id,
        skill=message.skill,
        action_digest_hmac=message.action_digest_hmac,
        actor=actor(message.actor),
        trace_id=message.trace_id,
        review_id=message.review_id,
        risk=message.risk,
        session_id=message.session_id,
        task_id=message.task_id,
        input=json_value(message.input_json),
    )
