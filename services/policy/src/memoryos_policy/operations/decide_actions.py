"""Decide actions: ask the rules, keep the answer, then give it."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence

from memoryos_core.canonical import action_digest, canonical_json
from memoryos_core.clock import Clock
from memoryos_core.errors import DependencyUnavailable
from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity

from memoryos_policy.domain.decisions import Decision, Draft
from memoryos_policy.domain.questions import Circumstances, Purpose, Question, input_document
from memoryos_policy.domain.verdicts import Effect, Verdict
from memoryos_policy.errors import DigestMismatch
from memoryos_policy.ports import DecisionStore, PolicyDecisionPoint


class DecideActions:
    """Decides for one verified identity at a time."""

    def __init__(self, store: DecisionStore, decision_point: PolicyDecisionPoint, clock: Clock) -> None:
        self._store = store
        self._decision_point = decision_point
        self._clock = clock

    async def __call__(self, identity: Identity, service: str, questions: Sequence[Question]) -> Sequence[Decision]:
        """Give one decision per question, in order; those on calls are kept by then.

        Raises DigestMismatch, before anything is asked, when a digest is not
        the one of its action. Raises when the decisions cannot be kept: then
        nobody may act. Failures of the decision point are denials of calls; a
        listing that it did not answer is DependencyUnavailable, since a caller
        who is told of no skills believes that it has none.
        """
        scope = Scope.of(identity)
        for question in questions:
            if question.purpose is Purpose.CALL:
                _check_digest(identity, question)
        known = await self._circumstances(scope, questions)
        asking = [self._draft(identity, service, question, one) for question, one in zip(questions, known, strict=True)]
        drafts = [await asking[0]] if len(asking) == 1 else await asyncio.gather(*asking)
        _check_listing([draft.verdict for draft in drafts if draft.question.purpose is Purpose.LIST])
        return await self._keep(scope, service, drafts)

    async def _circumstances(self, scope: Scope, questions: Sequence[Question]) -> Sequence[Circumstances]:
        """Give the circumstances of each question; a listing has none."""
        calls = [question for question in questions if question.purpose is Purpose.CALL]
        known = iter(await self._store.circumstances_of(scope, calls) if calls else ())
        return [next(known) if question.purpose is Purpose.CALL else Circumstances() for question in questions]

    async def _draft(self, identity: Identity, service: str, question: Question, known: Circumstances) -> Draft:
        document = input_document(identity, service, question, time=self._clock.now(), circumstances=known)
        review = known.review
        verdict = await self._decision_point.decide(document)
        rests_on_review = (
            review is not None and review.state == "approved" and review.same_action and verdict.effect is Effect.ALLOW
        )
        return Draft(
            question=question,
            verdict=verdict,
            document=document,
            review_id=review.id if review is not None and rests_on_review else "",
            service=service,
        )

    async def _keep(self, scope: Scope, service: str, drafts: Sequence[Draft]) -> Sequence[Decision]:
        calls = [draft for draft in drafts if draft.question.purpose is Purpose.CALL]
        listings = [draft for draft in drafts if draft.question.purpose is Purpose.LIST]
        kept = iter(await self._store.keep(scope, calls) if calls else ())
        noted = iter(await self._store.note_listing(scope, service, listings) if listings else ())
        return [next(kept if draft.question.purpose is Purpose.CALL else noted) for draft in drafts]


def _check_listing(verdicts: Sequence[Verdict]) -> None:
    """Raise DependencyUnavailable when the engine was away; rules of one skill that fail hide that skill alone."""
    if any(verdict.engine_away for verdict in verdicts) or (verdicts and all(v.undecided for v in verdicts)):
        raise DependencyUnavailable


def _check_digest(identity: Identity, question: Question) -> None:
    expected = action_digest(
        tenant=identity.tenant,
        user=identity.user,
        chain=identity.chain,
        skill=question.action.skill,
        version=question.action.version,
        definition_digest=question.action.definition_digest,
        arguments=canonical_json(question.arguments),
    )
    if not hmac.compare_digest(expected.encode(), question.action_digest.encode()):
        raise DigestMismatch
