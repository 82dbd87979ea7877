"""Ask policy about one call: what it is done to, what policy says, what that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Call
from memoryos_toolgateway.domain.decisions import Action, Question, Verdict, judge
from memoryos_toolgateway.domain.skill import Skill
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
        return await self._ask(call_id, skill, arguments, canonical, digest, attempt=1, review_id="")

    async def again(self, call: Call, arguments: dict[str, Any]) -> Verdict:
        """Give the verdict on a journaled call, with the arguments that are kept.

        Asked right before each dispatch that does not follow its first decision
        at once: the resource is looked up anew, and a skill that was withdrawn or
        changed since is a deny without asking.
        """
        skill = self.registry.get(call.skill)
        if skill is None or skill.definition_digest != call.definition_digest:
            return Verdict(
                action=Action.DENY,
                decision_id="",
                error_code=messages.CHANGED_CODE,
                agent_message=messages.CHANGED,
            )
        return await self._ask(
            call.id,
            skill,
            arguments,
            call.arguments,
            call.action_digest,
            attempt=call.dispatches + 1,
            review_id=call.review_id,
        )

    async def _ask(
        self,
        call_id: str,
        skill: Skill,
        arguments: dict[str, Any],
        canonical: bytes,
        digest: str,
        *,
        attempt: int,
        review_id: str,
    ) -> Verdict:
        question = Question(
            call_id=call_id,
            attempt=attempt,
            skill=skill,
            resource=await self.lookup.look_up(skill, arguments),
            arguments=canonical,
            action_digest=digest,
        )
        return judge(await self.policy.decide(question), call_id=call_id, review_id=review_id)
