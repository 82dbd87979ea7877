"""From obligations to the messages of the API."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from memoryos.policy.v1 import policy_pb2
from memoryos_core.canonical import canonical_json

from memoryos_policy.domain.obligations import (
    Approval,
    Notify,
    Obligation,
    OutputLimit,
    RateLimit,
    ReadOnly,
    Redact,
    RewriteArgs,
    Sandbox,
    Taint,
)


def obligation_message(obligation: Obligation) -> policy_pb2.Obligation:
    """Give the message of one obligation."""
    match obligation:
        case Approval():
            approval = policy_pb2.ApprovalObligation(
                group=obligation.group, quorum=obligation.quorum, expires_in=_seconds(obligation.expires_in_s)
            )
            return policy_pb2.Obligation(approval=approval)
        case RewriteArgs(patches):
            values = [
                policy_pb2.ArgumentPatch(
                    pointer=patch.pointer, value_json=b"" if patch.withheld else canonical_json(patch.value)
                )
                for patch in patches
            ]
            return policy_pb2.Obligation(rewrite_args=policy_pb2.RewriteArgsObligation(patches=values))
        case Redact(pointers, detectors):
            return policy_pb2.Obligation(redact=policy_pb2.RedactObligation(pointers=pointers, detectors=detectors))
        case RateLimit(key, limit, window_s, cost):
            rate = policy_pb2.RateLimitObligation(key=key, limit=limit, window=_seconds(window_s), cost=cost)
            return policy_pb2.Obligation(rate_limit=rate)
        case ReadOnly():
            return policy_pb2.Obligation(read_only=policy_pb2.ReadOnlyObligation())
        case Sandbox(level):
            return policy_pb2.Obligation(sandbox=policy_pb2.SandboxObligation(level=level))
        case OutputLimit(size_bytes):
            return policy_pb2.Obligation(output_limit=policy_pb2.OutputLimitObligation(bytes=size_bytes))
        case Taint(facts):
            return policy_pb2.Obligation(taint=policy_pb2.TaintObligation(facts=facts))
        case Notify(channel, text):
            return policy_pb2.Obligation(notify=policy_pb2.NotifyObligation(channel=channel, text=text))


def _seconds(count: int) -> Duration:
    return Duration(seconds=count)
