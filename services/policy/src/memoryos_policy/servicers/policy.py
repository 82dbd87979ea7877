"""memoryos.policy.v1.Policy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc
from memoryos_core.clock import Clock
from memoryos_core.errors import ServiceTokenRequired
from memoryos_grpc.caller import Caller, caller
from memoryos_grpc.caller import scope as caller_scope
from memoryos_telemetry import names
from opentelemetry import trace

from memoryos_policy.domain.decisions import Decision
from memoryos_policy.operations.decide_actions import DecideActions
from memoryos_policy.operations.explain_decision import explain_decision
from memoryos_policy.operations.read_decisions import get_decision, list_decisions
from memoryos_policy.operations.watch_decisions import watch_decisions
from memoryos_policy.ports import DecisionLog, KeptRules
from memoryos_policy.servicers.answers import decision_message, explanation_message
from memoryos_policy.servicers.requests import effect_of, filter_of, page_of, question_of, with_input


class PolicyServicer(policy_pb2_grpc.PolicyServicer):
    """Decisions."""

    def __init__(self, decide: DecideActions, log: DecisionLog, rules: KeptRules, clock: Clock) -> None:
        self._decide = decide
        self._log = log
        self._rules = rules
        self._clock = clock

    async def Decide(self, request: policy_pb2.DecideRequest, context: Any) -> policy_pb2.DecideResponse:
        """Decide one action and keep the decision."""
        who = caller()
        question = question_of(request)
        (decision,) = await self._decide(who.identity, _service(who), [question])
        _mark_span(decision)
        return policy_pb2.DecideResponse(decision=decision_message(decision.seen_by(who.scope)))

    async def BatchDecide(self, request: policy_pb2.BatchDecideRequest, context: Any) -> policy_pb2.BatchDecideResponse:
        """Decide several actions, in order."""
        who = caller()
        questions = [question_of(one, f"requests[{number}].") for number, one in enumerate(request.requests)]
        decisions = await self._decide(who.identity, _service(who), questions)
        messages = [decision_message(decision.seen_by(who.scope)) for decision in decisions]
        return policy_pb2.BatchDecideResponse(decisions=messages)

    async def GetDecision(self, request: policy_pb2.GetDecisionRequest, context: Any) -> policy_pb2.GetDecisionResponse:
        """Give one kept decision."""
        decision = await get_decision(self._log, caller_scope(), request.id, with_input=with_input(request.view))
        return policy_pb2.GetDecisionResponse(decision=decision_message(decision))

    async def ListDecisions(
        self, request: policy_pb2.ListDecisionsRequest, context: Any
    ) -> policy_pb2.ListDecisionsResponse:
        """List kept decisions, newest first."""
        page = page_of(request.page_size, request.page_token)
        decisions, next_token = await list_decisions(
            self._log, caller_scope(), filter_of(request), page, with_input=with_input(request.view)
        )
        return policy_pb2.ListDecisionsResponse(
            decisions=[decision_message(decision) for decision in decisions], next_page_token=next_token
        )

    async def WatchDecisions(
        self, request: policy_pb2.WatchDecisionsRequest, context: Any
    ) -> AsyncIterator[policy_pb2.WatchDecisionsResponse]:
        """Stream decisions as they are kept."""
        effect = effect_of(request.effect)
        async with aclosing(
            watch_decisions(self._log, self._clock, caller_scope(), effect, request.position)
        ) as decisions:
            async for decision, position in decisions:
                message = decision_message(decision) if decision else None
                yield policy_pb2.WatchDecisionsResponse(decision=message, position=position)

    async def ExplainDecision(
        self, request: policy_pb2.ExplainDecisionRequest, context: Any
    ) -> policy_pb2.ExplainDecisionResponse:
        """Ask the revision that decided once more."""
        return explanation_message(await explain_decision(self._log, self._rules, caller_scope(), request.id))


def _service(who: Caller) -> str:
    """Give the calling service; the table of methods lets nobody else through, and neither does this."""
    if who.service is None:
        raise ServiceTokenRequired
    return who.service


def _mark_span(decision: Decision) -> None:
    span = trace.get_current_span()
    span.set_attribute(names.DECISION, decision.effect.value)
    span.set_attribute(names.DECISION_ID, decision.id)
    span.set_attribute(names.CALL_ID, decision.call_id)
    span.set_attribute(names.SKILL, decision.skill)
    span.set_attribute(names.BUNDLE_REVISION, decision.bundle_revision)
