"""ToolBox over the tool-gateway."""

from __future__ import annotations

from typing import Any, Final

import grpc
from memoryos.policy.v1 import policy_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_core.canonical import parse_json
from memoryos_core.errors import DependencyUnavailable, InvalidField
from memoryos_grpc.caller import subject_token
from memoryos_grpc.status import RemoteError, remote_error

from memoryos_harness.domain.outcomes import CallOutcome, CallOutcomeKind
from memoryos_harness.domain.tasks import CallIds
from memoryos_harness.errors import LeaseLost
from memoryos_harness.ports import Skill

LIST_TIMEOUT_S: Final = 10.0
CALL_TIMEOUT_S: Final = 120.0
"""Above the time-out of any skill; the gateway's journal knows what became of a call that takes longer."""
PAGE_SIZE: Final = 500
RESULT_BYTES_MAX: Final = 4 * 1024 * 1024
_STATES: Final = {
    tool_gateway_pb2.CALL_STATE_INTENDED: CallOutcomeKind.IN_FLIGHT,
    tool_gateway_pb2.CALL_STATE_DISPATCHED: CallOutcomeKind.IN_FLIGHT,
    tool_gateway_pb2.CALL_STATE_PARKED: CallOutcomeKind.PARKED,
    tool_gateway_pb2.CALL_STATE_SUCCEEDED: CallOutcomeKind.SUCCEEDED,
    tool_gateway_pb2.CALL_STATE_FAILED: CallOutcomeKind.FAILED,
    tool_gateway_pb2.CALL_STATE_UNKNOWN: CallOutcomeKind.UNKNOWN,
    tool_gateway_pb2.CALL_STATE_DENIED: CallOutcomeKind.REFUSED,
    tool_gateway_pb2.CALL_STATE_CANCELLED: CallOutcomeKind.REFUSED,
}
_NOT_MADE: Final = {
    "INVALID_ARGUMENT": CallOutcomeKind.INVALID,
    "NOT_FOUND": CallOutcomeKind.INVALID,
    "PERMISSION_DENIED": CallOutcomeKind.REFUSED,
    "UNAUTHENTICATED": CallOutcomeKind.REFUSED,
    "FAILED_PRECONDITION": CallOutcomeKind.REFUSED,
}
"""Answers that say for certain that no call was made by this asking."""
_REPEATABLE: Final = frozenset({policy_pb2.EFFECT_CLASS_READ, policy_pb2.EFFECT_CLASS_IDEMPOTENT})
_AT_THE_DOOR: Final = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED"})
"""Those that come before the gateway has looked for the call in its journal."""


class GrpcTools:
    """See `ToolBox`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = tool_gateway_pb2_grpc.ToolGatewayStub(channel)

    async def list_skills(self, token: str) -> tuple[Skill, ...]:
        """See `ToolBox.list_skills`."""
        found: list[Skill] = []
        page_token = ""
        while True:
            request = tool_gateway_pb2.ListSkillsRequest(page_size=PAGE_SIZE, page_token=page_token)
            try:
                with subject_token(token):
                    call = self._stub.ListSkills(request, timeout=LIST_TIMEOUT_S)
                answer = await call
            except grpc.aio.AioRpcError as error:
                raise _unavailable(remote_error(error)) from error
            found += [_skill(skill) for skill in answer.skills]
            page_token = answer.next_page_token
            if not page_token:
                return tuple(found)

    async def call_skill(
        self, token: str, *, skill: str, arguments: bytes, request_id: str, lease_epoch: int
    ) -> CallOutcome:
        """See `ToolBox.call_skill`."""
        request = tool_gateway_pb2.CallSkillRequest(
            skill=skill, arguments_json=arguments, request_id=request_id, lease_epoch=lease_epoch
        )
        try:
            with subject_token(token):
                call = self._stub.CallSkill(request, timeout=CALL_TIMEOUT_S)
            answer = await call
        except grpc.aio.AioRpcError as error:
            return _from_error(remote_error(error), error)
        return _outcome(answer.call)


def _from_error(remote: RemoteError, cause: Exception) -> CallOutcome:
    if remote.reason == "EPOCH_FENCED":
        raise LeaseLost from cause
    kind = _NOT_MADE.get(remote.code)
    if kind is None:
        raise _unavailable(remote) from cause
    message = ""
    if kind is CallOutcomeKind.INVALID and remote.reason:  # said by one of our services: a safe sentence
        message = "There is no tool of this name." if remote.code == "NOT_FOUND" else remote.message
    if remote.violations:
        message = "; ".join(f"{violation.field}: {violation.description}" for violation in remote.violations[:8])
    return CallOutcome(kind=kind, message=message, code=remote.reason, at_the_door=remote.code in _AT_THE_DOOR)


def _unavailable(remote: RemoteError) -> DependencyUnavailable:
    return DependencyUnavailable(
        metadata={"peer": "tool-gateway", "code": remote.code, "peer_reason": remote.reason},
        retry_after_s=remote.retry_after_s,
    )


def _outcome(call: tool_gateway_pb2.Call) -> CallOutcome:
    ids = CallIds(call_id=call.id, decision_id=call.decision_id, review_id=call.review_id)
    # A state that this release does not know may have had an effect.
    kind = _STATES.get(call.state, CallOutcomeKind.UNKNOWN)
    if kind is CallOutcomeKind.SUCCEEDED:
        try:
            result = parse_json(call.result_json, max_bytes=RESULT_BYTES_MAX) if call.result_json else None
        except InvalidField:
            result = {"unreadable_result": True}
        return CallOutcome(
            kind=kind, result=result, message=call.agent_message, code=call.error_code, ids=ids, fallback=call.fallback
        )
    return CallOutcome(kind=kind, message=call.agent_message, code=call.error_code, ids=ids, fallback=call.fallback)


def _skill(skill: tool_gateway_pb2.Skill) -> Skill:
    parameters: Any = parse_json(skill.parameters_json, max_bytes=RESULT_BYTES_MAX) if skill.parameters_json else {}
    return Skill(
        name=skill.name,
        description=skill.description,
        parameters=parameters or {"type": "object"},
        repeatable=skill.effect_class in _REPEATABLE,
    )
