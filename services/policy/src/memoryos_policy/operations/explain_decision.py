"""Ask the rules that decided once more, and say which of them were true."""

from __future__ import annotations

from dataclasses import replace

from memoryos_core.canonical import canonical_json
from memoryos_core.scope import Scope

from memoryos_policy.domain.decisions import Decision, Explanation, sees_inputs
from memoryos_policy.domain.masking import masked_input
from memoryos_policy.domain.obligations import document_of, values_of, withheld, without_values
from memoryos_policy.errors import DecidedWithoutRules, InputErased, InputsForAuditors
from memoryos_policy.ports import DecisionLog, KeptRules


async def explain_decision(log: DecisionLog, rules: KeptRules, scope: Scope, decision_id: str) -> Explanation:
    """Give a decision beside what its own revision says of the same input now; for people who audit.

    Raises InputsForAuditors, DecisionNotFound, DecidedWithoutRules where a
    fault decided, InputErased, and what KeptRules.again raises.
    """
    if not sees_inputs(scope):
        raise InputsForAuditors
    kept = await log.kept(scope, decision_id)
    if not kept.decision.bundle_revision:
        raise DecidedWithoutRules
    if kept.document is None:
        raise InputErased
    verdict, fired = await rules.again(kept.decision.bundle_revision, kept.document)
    again = replace(
        kept.decision,
        effect=verdict.effect,
        reasons=verdict.reasons,
        agent_message=verdict.agent_message,
        obligations=tuple(map(withheld, verdict.obligations)),
        risk=verdict.risk,
    )
    same_values = canonical_json(values_of(verdict.obligations)) == canonical_json(list(kept.rewrites))
    return Explanation(
        kept=replace(kept.decision, input=canonical_json(masked_input(kept.document))),
        again=again,
        same=same_values and _said(again) == _said(kept.decision),
        fired=fired,
    )


def _said(decision: Decision) -> object:
    """Give what a decision says, in a form that compares."""
    obligations = [canonical_json(without_values(document_of(one))) for one in decision.obligations]
    return decision.effect, decision.risk, decision.agent_message, decision.reasons, obligations
