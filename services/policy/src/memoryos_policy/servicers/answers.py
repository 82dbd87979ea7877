"""From decisions and reviews to the messages of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.policy.v1 import policy_pb2, reviews_pb2
from memoryos.type.v1 import common_pb2

from memoryos_policy.domain.decisions import Decision, Explanation
from memoryos_policy.domain.reviews import Review, ReviewState, Verdict
from memoryos_policy.servicers.obligations import obligation_message
from memoryos_policy.servicers.requests import EFFECT_CLASSES, EFFECTS

_EFFECT_VALUES: Final = {effect: value for value, effect in EFFECTS.items()}
_EFFECT_CLASS_VALUES: Final = {effect_class.value: value for value, effect_class in EFFECT_CLASSES.items()}
STATES: Final = {
    reviews_pb2.REVIEW_STATE_PENDING: ReviewState.PENDING,
    reviews_pb2.REVIEW_STATE_APPROVED: ReviewState.APPROVED,
    reviews_pb2.REVIEW_STATE_DENIED: ReviewState.DENIED,
    reviews_pb2.REVIEW_STATE_EXPIRED: ReviewState.EXPIRED,
}
_STATE_VALUES: Final = {state: value for value, state in STATES.items()}
VERDICTS: Final = {
    reviews_pb2.VERDICT_APPROVE: Verdict.APPROVE,
    reviews_pb2.VERDICT_DENY: Verdict.DENY,
}
_VERDICT_VALUES: Final = {verdict: value for value, verdict in VERDICTS.items()}


def decision_message(decision: Decision) -> policy_pb2.Decision:
    """Give the message of a decision, with the reasons that it holds."""
    message = policy_pb2.Decision(
        id=decision.id,
        effect=_EFFECT_VALUES[decision.effect],
        reasons=[policy_pb2.Reason(code=r.code, policy=r.policy, text=r.text) for r in decision.reasons],
        agent_message=decision.agent_message,
        bundle_revision=decision.bundle_revision,
        create_time=_time(decision.create_time),
        call_id=decision.call_id,
        skill=decision.skill,
        action_digest_hmac=decision.action_digest_hmac,
        actor=common_pb2.Actor(user=decision.user, agent_chain=decision.chain),
        trace_id=decision.trace_id,
        review_id=decision.review_id,
        risk=decision.risk,
        session_id=decision.session_id,
        task_id=decision.task_id,
        input_json=decision.input,
    )
    if decision.bundle_age is not None:
        message.bundle_age.FromTimedelta(decision.bundle_age)
    message.obligations.extend(map(obligation_message, decision.obligations))
    return message


def explanation_message(explanation: Explanation) -> policy_pb2.ExplainDecisionResponse:
    """Give the message of an explanation."""
    return policy_pb2.ExplainDecisionResponse(
        kept=decision_message(explanation.kept),
        again=decision_message(explanation.again),
        same=explanation.same,
        fired=[policy_pb2.FiredRule(file=one.file, line=one.line, head=one.head) for one in explanation.fired],
    )


def review_message(review: Review) -> reviews_pb2.Review:
    """Give the message of a review, with what it holds."""
    message = reviews_pb2.Review(
        id=review.id,
        call_id=review.call_id,
        decision_id=review.decision_id,
        state=_STATE_VALUES[review.state],
        group=review.group,
        quorum=review.quorum,
        requester=common_pb2.Actor(user=review.user, agent_chain=review.chain),
        skill=review.skill,
        arguments_json=review.arguments,
        action_digest_hmac=review.action_digest_hmac,
        votes=[
            reviews_pb2.Vote(
                reviewer=vote.reviewer,
                verdict=_VERDICT_VALUES[vote.verdict],
                comment=vote.comment,
                create_time=_time(vote.create_time),
            )
            for vote in review.votes
        ],
        create_time=_time(review.create_time),
        expire_time=_time(review.expire_time),
        etag=str(review.version),
        reasons=review.reasons,
        skill_version=review.skill_version,
        effect_class=_EFFECT_CLASS_VALUES.get(review.effect_class, policy_pb2.EFFECT_CLASS_UNSPECIFIED),
        risk=review.risk,
        resource_type=review.resource_type,
        resource_id=review.resource_id,
    )
    if review.resolve_time is not None:
        message.resolve_time.CopyFrom(_time(review.resolve_time))
    return message


def _time(value: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(value)
    return message
