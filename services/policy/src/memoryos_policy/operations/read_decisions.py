"""Read kept decisions: auditors all of their tenant with reasons, others their own without.

An agent's own are those of its chain, never those of its user or of another agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memoryos_core.scope import Scope

from memoryos_policy.domain.decisions import SEES_ALL, Decision
from memoryos_policy.errors import DecisionNotFound
from memoryos_policy.ports import DecisionFilter, DecisionStore, Page


async def get_decision(store: DecisionStore, scope: Scope, decision_id: str) -> Decision:
    """Give one decision as the reader may see it; one of others is DecisionNotFound for who is no auditor."""
    decision = await store.find(scope, decision_id)
    if not decision.belongs_to(scope) and not scope.roles & SEES_ALL:
        raise DecisionNotFound
    return decision.seen_by(scope)


async def list_decisions(
    store: DecisionStore, scope: Scope, wanted: DecisionFilter, page: Page
) -> tuple[Sequence[Decision], str]:
    """Give a page of decisions, newest first, and the token of the next; an auditor's page is the whole tenant's."""
    if not scope.roles & SEES_ALL:
        wanted = replace(wanted, user=scope.user)
    decisions, next_token = await store.newest(scope, wanted, page)
    return [decision.seen_by(scope) for decision in decisions], next_token
