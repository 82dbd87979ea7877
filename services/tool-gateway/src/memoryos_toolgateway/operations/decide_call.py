"""Ask policy about one call: what it is done to, what policy says, what that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Call
from memoryos_toolgateway.domain.decisions import Action, Decision, Question, Verdict, judge
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import PolicyUnavailable
from memoryos_toolgateway.ports import PolicyClient, ResourceLookup
from memoryos_toolgateway.registry import SkillRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDecider:
    """Gives verdicts. Nothing is kept here but by policy."""

    policy: PolicyClient
    lookup: ResourceLookup
    registry: SkillRegistry

    async def first(
        self, call_id: str, skill: Skill, arguments: dict[str, Any], canonical: bytes, digest: str
    ) -> Verdict:
        """Give the verdict on a call that is not journaled yet. Raises PolicyUnavailable."""
        decision = await self._ask(call_id, skill, arguments, canonical, digest, attempt=1)
        return judge(decision, call_id=call_id)

    async def again(self, call: Call, arguments: dict[str, Any]) -> Verdict:
        """Give the verdict on a journaled call, with the arguments that are kept.

        Asked right before each dispatch that does not follow its first decision
        at once: the resource is looked up anew, and a skill that was withdrawn or
        changed since is a deny without asking. Raises PolicyUnavailable when no
        rule has spoken: nothing is sent, and an approval that a person gave is
        not thrown away because the engine was away for a moment.
        """
        skill = self.registry.get(call.skill)
        if skill is None or skill.definition_digest != call.definition_digest:
            return Verdict(
                action=Action.DENY,
                decision_id="",
                error_code=messages.CHANGED_CODE,
                agent_message=messages.CHANGED,
            )
        decision = await self._ask(
            call.id, skill, arguments, call.arguments, call.action_digest, attempt=call.dispatches + 1
        )
        if not decision.by_rule:
            raise PolicyUnavailable
        return judge(decision, call_id=call.id, review_id=call.review_id)

    async def _ask(
        self,
        call_id: str,
        skill: Skill,
        arguments: dict[str, Any],
        canonical: bytes,
        digest: str,
        *,
        attempt: int,
    ) -> Decision:
        question = Question(
            call_id=call_id,
            attempt=attempt,
            skill=skill,
            resource=await self.lookup.look_up(skill, arguments),
            arguments=canonical,
            action_digest=digest,
        )
        return await self.policy.decide(question)
