"""memoryos.toolgateway.v1.ToolGateway: messages in, operations, messages out."""

from __future__ import annotations

from typing import Any, Final

from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_grpc.budget import remaining_s
from memoryos_grpc.caller import caller
from memoryos_grpc.caller import scope as caller_scope
from memoryos_telemetry import names, tracer

from memoryos_toolgateway.operations.call_skill import CallRequest, CallSkill
from memoryos_toolgateway.operations.list_skills import get_skill, list_skills
from memoryos_toolgateway.operations.search_skills import SkillSearch
from memoryos_toolgateway.render import call_message, skill_message
from memoryos_toolgateway.servicers.calls import CallsServicer, JournalCalls, issuer_of

ANSWER_MARGIN_S: Final = 0.25
"""Left of the caller's deadline when CallSkill stops waiting, so that the answer arrives."""
_TRACER: Final = tracer("memoryos_toolgateway")


class ToolGatewayServicer(CallsServicer, tool_gateway_pb2_grpc.ToolGatewayServicer):
    """Tool calls."""

    def __init__(self, call_skill: CallSkill, calls: JournalCalls, search: SkillSearch, wait_s: float) -> None:
        self._call_skill = call_skill
        self._search = search
        self._calls = calls
        self._wait_s = wait_s

    async def ListSkills(self, request: pb.ListSkillsRequest, context: Any) -> pb.ListSkillsResponse:
        """List the skills that the caller could be allowed to call."""
        skills, next_page_token = await list_skills(
            self._call_skill.registry,
            self._call_skill.policy,
            self._call_skill.journal,
            caller_scope(),
            page_size=request.page_size,
            page_token=request.page_token,
        )
        return pb.ListSkillsResponse(skills=map(skill_message, skills), next_page_token=next_page_token)

    async def GetSkill(self, request: pb.GetSkillRequest, context: Any) -> pb.GetSkillResponse:
        """Give one of them."""
        skill = await get_skill(self._call_skill.registry, self._call_skill.policy, request.name)
        return pb.GetSkillResponse(skill=skill_message(skill))

    async def CallSkill(self, request: pb.CallSkillRequest, context: Any) -> pb.CallSkillResponse:
        """Make a call, or tell what became of it."""
        left_s = remaining_s()
        wait_s = self._wait_s if left_s is None else min(self._wait_s, left_s - ANSWER_MARGIN_S)
        attributes: dict[str, str | bool | int | float] = {
            names.GEN_AI_OPERATION: names.EXECUTE_TOOL,
            names.GEN_AI_TOOL: request.skill,
            names.SKILL: request.skill,
            names.LEASE_EPOCH: request.lease_epoch,
        }
        with _TRACER.span(f"{names.EXECUTE_TOOL} {request.skill}", attributes=attributes) as span:
            call = await self._call_skill.run(
                caller_scope(),
                CallRequest(
                    skill=request.skill,
                    arguments_json=request.arguments_json,
                    request_id=request.request_id,
                    issuer=issuer_of(caller()),
                    lease_epoch=request.lease_epoch,
                    wait_s=max(wait_s, 0),
                ),
            )
            span.set_attribute(names.CALL_ID, call.id)
            span.set_attribute(names.GEN_AI_TOOL_CALL_ID, call.id)
            span.set_attribute(names.EFFECT_STATE, call.state.value)
            span.set_attribute(names.DECISION_ID, call.decision_id)
            if call.review_id:
                span.set_attribute(names.REVIEW_ID, call.review_id)
        return pb.CallSkillResponse(call=call_message(call))

    async def SearchSkills(self, request: pb.SearchSkillsRequest, context: Any) -> pb.SearchSkillsResponse:
        """Find skills by what they are for."""
        found, words_only = await self._search.search(request.query, request.top_k)
        hits = [pb.SkillHit(skill=skill_message(skill), score=score) for skill, score in found]
        return pb.SearchSkillsResponse(hits=hits, words_only=words_only)
