"""Read kept decisions: auditors all of their tenant with reasons, others their own without.

An agent's own are those of its chain, never those of its user or of another agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memoryos_core.scope import Scope

from memoryos_policy.domain.decisions import SEES_ALL, Decision, sees_inputs
from memoryos_policy.errors import DecisionNotFound, InputsForAuditors
from memoryos_policy.ports import DecisionFilter, DecisionLog, Page


async def get_decision(log: DecisionLog, scope: Scope, decision_id: str, *, with_input: bool = False) -> Decision:
    """Give one decision as the reader may see it; one of others is DecisionNotFound for who is no auditor."""
    if with_input and not sees_inputs(scope):
        raise InputsForAuditors
    decision = await log.find(scope, decision_id, with_input=with_input)
    if not decision.belongs_to(scope) and not scope.roles & SEES_ALL:
        raise DecisionNotFound
    return decision.seen_by(scope)


async def list_decisions(
    log: DecisionLog, scope: Scope, wanted: DecisionFilter, page: Page, *, with_input: bool = False
) -> tuple[Sequence[Decision], str]:
    """Give a page of decisions, newest first, and the token of the next; an auditor's page is the whole tenant's.

    Raises InputsForAuditors for inputs, and where somebody else's decisions or
    reasons are asked for: to be told which decisions have a reason is to be told the reason.
    """
    if with_input and not sees_inputs(scope):
        raise InputsForAuditors
    if not scope.roles & SEES_ALL:
        if wanted.user not in ("", scope.user) or wanted.reason_code or wanted.policy:
            raise InputsForAuditors
        wanted = replace(wanted, own=True)
    decisions, next_token = await log.newest(scope, wanted, page, with_input=with_input)
    return [decision.seen_by(scope) for decision in decisions], next_token
