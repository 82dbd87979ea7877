"""Ask policy about one call: what it is done to, what policy says, what that means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from memoryos_core.canonical import action_digest, canonical_json
from memoryos_core.errors import InvalidField
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain import messages, pointers
from memoryos_toolgateway.domain.calls import Call
from memoryos_toolgateway.domain.decisions import Action, Decision, Question, Terms, Verdict, denied, judge
from memoryos_toolgateway.domain.obligations import Obligations
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import ArgumentsInvalid, PolicyUnavailable
from memoryos_toolgateway.operations.check_arguments import ArgumentsCheck
from memoryos_toolgateway.ports import PolicyClient, ResourceLookup
from memoryos_toolgateway.registry import SkillRegistry

ARGUMENTS_BYTES_MAX: Final = 262_144


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one action, and the digest that names it."""

    value: dict[str, Any]
    canonical: bytes
    digest: str

    @classmethod
    def of(cls, scope: Scope, skill: Skill, value: dict[str, Any], canonical: bytes) -> Arguments:
        """Name the action of these arguments."""
        digest = action_digest(
            tenant=scope.tenant,
            user=scope.user,
            chain=scope.chain,
            skill=skill.name,
            version=skill.version,
            definition_digest=skill.definition_digest,
            arguments=canonical,
        )
        return cls(value, canonical, digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDecider:
    """Gives verdicts. Nothing is kept here but by policy."""

    policy: PolicyClient
    lookup: ResourceLookup
    registry: SkillRegistry
    check: ArgumentsCheck
    channels: frozenset[str] = frozenset()

    async def first(self, scope: Scope, call_id: str, skill: Skill, asked: Arguments) -> tuple[Verdict, Arguments]:
        """Give the verdict on a call that is not journaled yet, and the arguments that it is about.

        Where policy changes the arguments they are validated, and the changed
        action is decided again; that decision stands, and one that would change
        them once more is a deny. Raises PolicyUnavailable.
        """
        terms = Terms(call_id=call_id, skill=skill, channels=self.channels)
        decision, verdict = await self._judged(terms, asked, attempt=1)
        if verdict.action is Action.DENY or not verdict.obligations.rewrites:
            return verdict, asked
        changed = self._rewritten(scope, skill, asked, verdict.obligations)
        if changed is None:
            return denied(decision, error_code=messages.REWRITE_INVALID_CODE), asked
        if changed.canonical == asked.canonical:
            return verdict, asked
        decision, verdict = await self._judged(terms, changed, attempt=1)
        if verdict.action is not Action.DENY and self._changes(scope, skill, changed, verdict.obligations):
            return denied(decision, error_code=messages.REWRITE_AGAIN_CODE), changed
        return verdict, changed

    async def again(self, scope: Scope, call: Call, value: dict[str, Any]) -> Verdict:
        """Give the verdict on a journaled call, with the arguments that are kept.

        Asked right before each dispatch that does not follow its first decision
        at once: the resource is looked up anew, and a skill that was withdrawn or
        changed since is a deny without asking; so is a rewrite, for what was
        decided and reviewed is what runs. Raises PolicyUnavailable when no rule
        has spoken: nothing is sent, and an approval that a person gave is not
        thrown away because the engine was away for a moment.
        """
        skill = self.registry.get(call.skill)
        if skill is None or skill.definition_digest != call.definition_digest:
            return Verdict(
                action=Action.DENY,
                decision_id="",
                error_code=messages.CHANGED_CODE,
                agent_message=messages.CHANGED,
            )
        kept = Arguments(value, call.arguments, call.action_digest)
        terms = Terms(call_id=call.id, skill=skill, review_id=call.review_id, channels=self.channels)
        decision, verdict = await self._judged(terms, kept, attempt=call.dispatches + 1)
        if not decision.by_rule:
            raise PolicyUnavailable
        if verdict.action is not Action.DENY and self._changes(scope, skill, kept, verdict.obligations):
            return denied(decision, error_code=messages.REWRITE_AGAIN_CODE)
        return verdict

    async def _judged(self, terms: Terms, arguments: Arguments, *, attempt: int) -> tuple[Decision, Verdict]:
        question = Question(
            call_id=terms.call_id,
            attempt=attempt,
            skill=terms.skill,
            resource=await self.lookup.look_up(terms.skill, arguments.value),
            arguments=arguments.canonical,
            action_digest=arguments.digest,
        )
        decision = await self.policy.decide(question)
        return decision, judge(decision, terms)

    def _changes(self, scope: Scope, skill: Skill, arguments: Arguments, obligations: Obligations) -> bool:
        if not obligations.rewrites:
            return False
        changed = self._rewritten(scope, skill, arguments, obligations)
        return changed is None or changed.canonical != arguments.canonical

    def _rewritten(
        self, scope: Scope, skill: Skill, arguments: Arguments, obligations: Obligations
    ) -> Arguments | None:
        """Give the arguments with the patches of a decision, or None where those lead to no valid ones."""
        value: Any = arguments.value
        try:
            for patch in obligations.rewrites:
                value = pointers.replaced(value, patch.pointer, patch.value)
            canonical = canonical_json(value)
            if len(canonical) > ARGUMENTS_BYTES_MAX:
                return None
            self.check.run(skill, cast("dict[str, Any]", value))
        except (ValueError, InvalidField, ArgumentsInvalid):
            return None
        return Arguments.of(scope, skill, value, canonical)
