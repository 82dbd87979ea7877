"""Domain values as the messages of memoryos.toolgateway.v1."""

from __future__ import annotations

from datetime import datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.policy.v1 import policy_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2
from memoryos.type.v1 import common_pb2
from memoryos_telemetry import trace_id_of

from memoryos_toolgateway.domain.calls import Call
from memoryos_toolgateway.domain.skill import Skill


def skill_message(skill: Skill) -> tool_gateway_pb2.Skill:
    """Give the message of a skill."""
    timeout = Duration()
    timeout.FromMilliseconds(round(skill.timeout_s * 1000))
    return tool_gateway_pb2.Skill(
        name=skill.name,
        version=skill.version,
        description=skill.description,
        parameters_json=skill.parameters_json,
        permissions=skill.permissions,
        effect_class=policy_pb2.EffectClass.Value(f"EFFECT_CLASS_{skill.effect_class.name}"),
        risk=skill.risk,
        timeout=timeout,
        definition_digest=skill.definition_digest,
        opened=skill.opened,
        egress=policy_pb2.Egress.Value(f"EGRESS_{skill.egress.name}"),
        destructive=skill.destructive,
    )


def call_message(call: Call) -> tool_gateway_pb2.Call:
    """Give the message of a call."""
    return tool_gateway_pb2.Call(
        id=call.id,
        skill=call.skill,
        version=call.version,
        state=tool_gateway_pb2.CallState.Value(f"CALL_STATE_{call.state.name}"),
        result_json=call.result,
        error_code=call.error_code,
        agent_message=call.agent_message,
        decision_id=call.decision_id,
        review_id=call.review_id,
        action_digest_hmac=call.action_digest_hmac,
        actor=common_pb2.Actor(user=call.user, agent_chain=call.chain),
        create_time=_timestamp(call.create_time),
        dispatch_time=_timestamp(call.dispatch_time),
        end_time=_timestamp(call.end_time),
        trace_id=trace_id_of(call.traceparent),
        dispatches=call.dispatches,
        fallback=call.fallback,
        full_result_bytes=call.full_result_bytes,
        full_result_sha256=call.full_result_sha256,
        rewritten=call.rewritten,
    )


def _timestamp(time: datetime | None) -> Timestamp | None:
    if time is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(time)
    return stamp
