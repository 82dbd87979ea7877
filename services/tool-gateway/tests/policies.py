"""A PolicyClient in memory: the same port and contract as the real one, rules as Python.

Used where policy is not what is tested; tests/test_policy_contract.py runs it and
the real service through the same cases.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from memoryos_core.ids import UlidSource
from memoryos_toolgateway.domain.decisions import Decision, Effect, Question
from memoryos_toolgateway.domain.obligations import NONE, Obligations
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import PolicyUnavailable

IDS = UlidSource()


def allow(_: Question) -> Effect:
    return Effect.ALLOW


def deny(_: Question) -> Effect:
    return Effect.DENY


def review(_: Question) -> Effect:
    return Effect.MANUAL_REVIEW


@dataclass
class Review:
    id: str
    action_digest: str
    state: str = "pending"


@dataclass
class InMemoryPolicy:
    """Decides by `rules[skill]`, else denies. A review is loaded by call id, never taken from the question."""

    rules: dict[str, Callable[[Question], Effect]] = field(default_factory=dict)
    reviews: dict[str, Review] = field(default_factory=dict)
    asked: list[Question] = field(default_factory=list)
    obligations: dict[str, Obligations | Callable[[Question], Obligations | None] | None] = field(default_factory=dict)
    """What a skill's decisions oblige to; None: something that no release knows."""
    down: bool = False
    engine_away: bool = False
    deciding: asyncio.Event | None = None
    """When given, decide waits for it: two callers can be held at the same place."""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def decide(self, question: Question) -> Decision:
        self._check_up()
        self.asked.append(question)
        async with self._changed:
            self._changed.notify_all()
        if self.deciding is not None:
            await self.deciding.wait()
        effect = self.rules.get(question.skill.name, deny)(question)
        found = self.reviews.get(question.call_id)
        review_id = ""
        if effect is Effect.MANUAL_REVIEW and found is not None:
            if found.action_digest != question.action_digest or found.state == "denied":
                effect = Effect.DENY
            elif found.state == "approved":
                effect, review_id = Effect.ALLOW, found.id
        if self.engine_away:
            return Decision(id=IDS.new("dec"), call_id=question.call_id, effect=Effect.DENY, by_rule=False)
        return Decision(
            id=IDS.new("dec"),
            call_id=question.call_id,
            effect=effect,
            agent_message="" if effect is Effect.ALLOW else "This action is not permitted.",
            review_id=review_id,
            obligations=self._obligations(question, effect),
        )

    def _obligations(self, question: Question, effect: Effect) -> Obligations | None:
        asked = self.obligations.get(question.skill.name, NONE)
        found = asked(question) if callable(asked) else asked
        return found and replace(found, approval=effect is Effect.MANUAL_REVIEW)

    async def wait_asked(self, count: int) -> None:
        """Return when `count` questions have been asked in all."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.asked) >= count)

    async def visible(self, skills: Sequence[Skill]) -> list[bool]:
        self._check_up()
        return [skill.name in self.rules and self.rules[skill.name] is not deny for skill in skills]

    async def open_review(self, call_id: str, action_digest: str, decision_id: str) -> str:
        self._check_up()
        return self.reviews.setdefault(call_id, Review(IDS.new("rev"), action_digest)).id

    def resolve(self, call_id: str, state: str) -> None:
        self.reviews[call_id].state = state

    def _check_up(self) -> None:
        if self.down:
            raise PolicyUnavailable
