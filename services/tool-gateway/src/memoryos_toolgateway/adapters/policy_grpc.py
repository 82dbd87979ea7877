"""Policy over gRPC, on behalf of the caller of the RPC at hand.

What comes back is translated without trust: an effect or obligation that this
gateway does not know becomes one that the rules of domain.decisions deny.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc
from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc, reviews_pb2, reviews_pb2_grpc
from memoryos_core.errors import DeadlineExceeded

from memoryos_toolgateway.adapters.obligation_messages import obligations_of
from memoryos_toolgateway.domain.decisions import Decision, Effect, Question
from memoryos_toolgateway.domain.skill import EffectClass, Egress, Skill, UpstreamIdentity
from memoryos_toolgateway.errors import ArgumentsInvalid, PolicyUnavailable

_EFFECTS: Final = {
    policy_pb2.EFFECT_ALLOW: Effect.ALLOW,
    policy_pb2.EFFECT_DENY: Effect.DENY,
    policy_pb2.EFFECT_MANUAL_REVIEW: Effect.MANUAL_REVIEW,
}
_BATCH_MAX: Final = 500
"""What BatchDecide takes."""
_CLASSES: Final = {
    EffectClass.READ: policy_pb2.EFFECT_CLASS_READ,
    EffectClass.IDEMPOTENT: policy_pb2.EFFECT_CLASS_IDEMPOTENT,
    EffectClass.KEYED: policy_pb2.EFFECT_CLASS_KEYED,
    EffectClass.NON_IDEMPOTENT: policy_pb2.EFFECT_CLASS_NON_IDEMPOTENT,
}
_EGRESS: Final = {
    Egress.NONE: policy_pb2.EGRESS_NONE,
    Egress.INTERNAL: policy_pb2.EGRESS_INTERNAL,
    Egress.EXTERNAL: policy_pb2.EGRESS_EXTERNAL,
}
_IDENTITIES: Final = {
    UpstreamIdentity.NONE: policy_pb2.UPSTREAM_IDENTITY_UNSPECIFIED,
    UpstreamIdentity.USER: policy_pb2.UPSTREAM_IDENTITY_USER,
    UpstreamIdentity.SERVICE: policy_pb2.UPSTREAM_IDENTITY_SERVICE,
}


class GrpcPolicy:
    """ports.PolicyClient over a channel of memoryos_grpc."""

    def __init__(self, channel: grpc.aio.Channel, timeout_s: float) -> None:
        self._policy = policy_pb2_grpc.PolicyStub(channel)
        self._reviews = reviews_pb2_grpc.ReviewsStub(channel)
        self._timeout_s = timeout_s

    async def decide(self, question: Question) -> Decision:
        """Give the decision on one action; see ports.PolicyClient."""
        request = policy_pb2.DecideRequest(
            purpose=policy_pb2.PURPOSE_CALL,
            action=action_message(question.skill),
            resource=_resource(question),
            arguments_json=question.arguments,
            action_digest=question.action_digest,
            context=policy_pb2.CallContext(call_id=question.call_id, attempt=question.attempt),
        )
        try:
            response = await self._policy.Decide(request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                # Asking again would not help: this is no outage.
                raise ArgumentsInvalid.of([("", "expected what policy can judge")]) from None
            raise PolicyUnavailable from None
        except DeadlineExceeded:
            raise PolicyUnavailable from None
        return _decision(response.decision)

    async def visible(self, skills: Sequence[Skill]) -> list[bool]:
        """Tell which skills the caller could be allowed at all; see ports.PolicyClient."""
        answers: list[bool] = []
        for start in range(0, len(skills), _BATCH_MAX):
            answers += await self._visible(skills[start : start + _BATCH_MAX])
        return answers

    async def _visible(self, skills: Sequence[Skill]) -> list[bool]:
        requests = [
            policy_pb2.DecideRequest(purpose=policy_pb2.PURPOSE_LIST, action=action_message(skill)) for skill in skills
        ]
        try:
            response = await self._policy.BatchDecide(
                policy_pb2.BatchDecideRequest(requests=requests), timeout=self._timeout_s
            )
        except (grpc.aio.AioRpcError, DeadlineExceeded):
            raise PolicyUnavailable from None
        if len(response.decisions) != len(skills):
            return [False] * len(skills)
        decisions = [_decision(decision) for decision in response.decisions]
        shown = (Effect.ALLOW, Effect.MANUAL_REVIEW)
        return [decision.effect in shown and decision.obligations is not None for decision in decisions]

    async def open_review(self, call_id: str, action_digest: str, decision_id: str) -> str:
        """Open the review of a parked call; see ports.PolicyClient."""
        request = reviews_pb2.OpenReviewRequest(call_id=call_id, action_digest=action_digest, decision_id=decision_id)
        try:
            response = await self._reviews.OpenReview(request, timeout=self._timeout_s)
        except (grpc.aio.AioRpcError, DeadlineExceeded):
            raise PolicyUnavailable from None
        return str(response.review.id)


def action_message(skill: Skill) -> policy_pb2.Action:
    """Give the action that policy decides for a skill."""
    return policy_pb2.Action(
        skill=skill.name,
        version=skill.version,
        definition_digest=skill.definition_digest,
        permissions=skill.permissions,
        effect_class=_CLASSES[skill.effect_class],
        risk=skill.risk,
        opened=skill.opened,
        egress=_EGRESS[skill.egress],
        destructive=skill.destructive,
        returns=skill.returns,
        identity=_IDENTITIES[skill.identity],
        recipients=skill.recipients,
        sensitive_arguments=skill.sensitive_arguments,
        intents=skill.intents,
    )


def _resource(question: Question) -> policy_pb2.Resource | None:
    resource = question.resource
    if not resource.type:
        return None
    return policy_pb2.Resource(type=resource.type, id=resource.id, properties_json=resource.properties)


def _decision(message: policy_pb2.Decision) -> Decision:
    return Decision(
        id=message.id,
        call_id=message.call_id,
        effect=_EFFECTS.get(message.effect, Effect.UNKNOWN),
        agent_message=message.agent_message,
        review_id=message.review_id,
        obligations=obligations_of(message.obligations),
        by_rule=bool(message.bundle_revision),
    )
