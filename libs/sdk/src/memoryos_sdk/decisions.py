"""Decisions: what policy said about each call, and for auditors why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memoryos.policy.v1 import policy_pb2

from memoryos_sdk.invocation import Invocation
from memoryos_sdk.names import number, word
from memoryos_sdk.paging import Pager
from memoryos_sdk.times import moment
from memoryos_sdk.tools import Actor, actor


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


class Decisions:
    """Kept decisions of policy."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def get(self, id: str, *, timeout_s: float | None = None) -> Decision:
        """Give one decision."""
        request = policy_pb2.GetDecisionRequest(id=id)
        return decision((await self._invocation.unary(self._stub.GetDecision, request, timeout_s=timeout_s)).decision)

    def list(self, *, call_id: str = "", effect: str | None = None, page_size: int = 50) -> Pager[Decision]:
        """Give decisions, newest first, of one call or with one effect where asked."""
        request = policy_pb2.ListDecisionsRequest(call_id=call_id, page_size=page_size)
        if effect is not None:
            request.effect = number(policy_pb2.Effect, effect, "effect")

        async def fetch(token: str) -> tuple[list[Decision], str]:
            request.page_token = token
            answer = await self._invocation.unary(self._stub.ListDecisions, request)
            return [decision(found) for found in answer.decisions], answer.next_page_token

        return Pager(fetch)


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
    )
