"""The one path of every tool call: direct, retried, resumed after approval or a crash, or asked for twice.

find the row, else the skill → validate → digest → look up → decide (and once more
where policy changes the arguments) → journal DISPATCHED, PARKED or DENIED →
SUCCEEDED, FAILED or UNKNOWN. What is allowed is first journaled as DISPATCHED, so
that one commit stands before the effect; INTENDED is what a rate or an upstream
that is out of order lets not through. Obligations: domain/obligations.py.

A call is named by (tenant, issuer, request_id). Whoever comes second with that
name gets the row as it stands; what may go on (INTENDED, PARKED, an UNKNOWN that
may be repeated) is decided again and goes on by one compare-and-set.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, cast

from memoryos_core.canonical import canonical_json, parse_json
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField
from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import Call, CallState, NewCall
from memoryos_toolgateway.domain.decisions import Action, Verdict
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import ArgumentsInvalid, CallDigestMismatch, SkillNotFound
from memoryos_toolgateway.operations.check_arguments import ArgumentsCheck
from memoryos_toolgateway.operations.decide_call import ARGUMENTS_BYTES_MAX, Arguments, CallDecider
from memoryos_toolgateway.operations.dispatch_call import CallDispatcher, Errand
from memoryos_toolgateway.ports import Journal, PolicyClient
from memoryos_toolgateway.registry import SkillRegistry

ARGUMENTS_DEPTH_MAX: Final = 64
POLL_S_FIRST: Final = 0.02
POLL_S_MAX: Final = 0.25
_STATE_OF: Final = {
    Action.SEND: CallState.INTENDED,
    Action.PARK: CallState.PARKED,
    Action.DENY: CallState.DENIED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """What a caller asks for."""

    skill: str
    arguments_json: bytes
    request_id: str
    issuer: str
    lease_epoch: int = 0
    wait_s: float
    """How long to wait for a call that is being sent, by this caller or another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSkill:
    """Makes a call, or tells what became of it."""

    registry: SkillRegistry
    journal: Journal
    policy: PolicyClient
    check: ArgumentsCheck
    decider: CallDecider
    dispatcher: CallDispatcher
    ids: IdSource

    async def run(self, scope: Scope, request: CallRequest) -> Call:
        """Give the call as it stands when it ends, parks, or `wait_s` has passed.

        Raises SkillNotFound, ArgumentsInvalid, CallDigestMismatch, EpochFenced
        and PolicyUnavailable; then nothing was sent because of this request.
        """
        arguments = parse_json(
            request.arguments_json,
            max_bytes=ARGUMENTS_BYTES_MAX,
            max_depth=ARGUMENTS_DEPTH_MAX,
            field="arguments_json",
        )
        canonical = canonical_json(arguments)
        if len(canonical) > ARGUMENTS_BYTES_MAX:  # 1e15 becomes 1000000000000000.0
            raise InvalidField.of("arguments_json", f"more than {ARGUMENTS_BYTES_MAX} bytes in canonical form")
        loop = asyncio.get_running_loop()
        call = await self._find(scope, request)
        verdict = None
        if call is None:
            new, verdict = await self._decided(scope, request, arguments, canonical)
            until = loop.time() + request.wait_s
            if verdict.action is Action.SEND:
                sent = await self._dispatch(scope, new, verdict, until)
                if sent is not None:
                    return sent
                # The time is up, or another caller was faster: the row stands in either case.
                call, verdict = await self._find(scope, request), None
                assert call is not None, "a call is never deleted"
            else:
                call, fresh = await self.journal.open(scope, new)
                crash_point("gateway.call.after_intent")
                verdict = verdict if fresh else None
        else:
            until = loop.time() + request.wait_s
        if call.withdrawn_unseen and call.user == scope.user:
            return call  # nothing is known of it but that it must not be made
        if not call.is_asked_by(user=scope.user, chain=scope.chain, skill=request.skill, arguments=canonical):
            raise CallDigestMismatch
        return await self._go_on(scope, request, call, verdict, until)

    async def _find(self, scope: Scope, request: CallRequest) -> Call | None:
        return await self.journal.find(scope, request.issuer, request.request_id, request.lease_epoch)

    async def _decided(
        self, scope: Scope, request: CallRequest, arguments: Any, canonical: bytes
    ) -> tuple[NewCall, Verdict]:
        """Decide on a call that is not journaled yet."""
        skill = self.registry.get(request.skill)
        if skill is None:
            raise SkillNotFound
        await self._validate(skill, arguments)
        if skill.resource.lookup is not None and not (await self.policy.visible([skill]))[0]:
            raise SkillNotFound  # no upstream is asked on behalf of somebody who may not even see the skill
        asked = Arguments.of(scope, skill, arguments, canonical)
        call_id = self.ids.new("call")
        verdict, runs = await self.decider.first(scope, call_id, skill, asked)
        crash_point("gateway.call.before_intent")
        rewritten = runs.canonical != canonical
        return NewCall(
            id=call_id,
            issuer=request.issuer,
            request_id=request.request_id,
            skill=skill,
            arguments=runs.canonical,
            action_digest=runs.digest,
            asked_arguments=canonical if rewritten else b"",
            asked_digest=asked.digest if rewritten else "",
            state=_STATE_OF[verdict.action],
            decision_id=verdict.decision_id,
            error_code=verdict.error_code,
            agent_message=verdict.agent_message,
            lease_epoch=request.lease_epoch,
            notices=verdict.obligations.notices if verdict.action is Action.DENY else (),
        ), verdict

    async def _validate(self, skill: Skill, arguments: Any) -> None:
        """Refuse arguments that break the schema; a caller who may not see the skill learns nothing of it."""
        try:
            self.check.run(skill, arguments)
        except ArgumentsInvalid:
            if not (await self.policy.visible([skill]))[0]:
                raise SkillNotFound from None
            raise

    async def _go_on(
        self, scope: Scope, request: CallRequest, call: Call, verdict: Verdict | None, until: float
    ) -> Call:
        """Bring the call on until it ends, parks or the time is up. `verdict` is one that was given just now."""
        loop = asyncio.get_running_loop()
        pause_s = POLL_S_FIRST
        while True:
            if call.can_go_on:
                moved = await self._step(scope, call, verdict, until)
                if moved is not None:
                    return moved
                verdict = None
            elif call.state is not CallState.DISPATCHED or loop.time() > until:
                return call
            # Another caller has it, or took the step before this one did.
            await asyncio.sleep(min(pause_s, max(until - loop.time(), 0)))
            pause_s = min(pause_s * 2, POLL_S_MAX)
            call = await self._find(scope, request) or call
            if loop.time() > until:
                return call

    async def _step(self, scope: Scope, call: Call, verdict: Verdict | None, until: float) -> Call | None:
        """Take the next step of a call that can go on; None when another caller took it, or the time is up."""
        if verdict is None:
            if call.state is CallState.PARKED and not call.review_id:
                # Its parking was cut off: the review may be open, and even approved, without this row knowing.
                parked = await self._open_review(scope, call, call.decision_id, call.agent_message)
                if parked is None:
                    return None
                call = parked
            verdict = await self.decider.again(scope, call, _value(call.arguments))
        if verdict.action is Action.SEND:
            return await self._dispatch(scope, call, verdict, until)
        if call.state is CallState.UNKNOWN:
            return call  # not sent again; that it is unknown stays true
        if verdict.action is Action.PARK:
            return await self._park(scope, call, verdict)
        return await self.journal.deny(scope, call, verdict)

    async def _dispatch(self, scope: Scope, call: Call | NewCall, verdict: Verdict, until: float) -> Call | None:
        """Send the call; None when another caller moved it first, or it goes on when the time is up."""
        skill = call.skill if isinstance(call, NewCall) else self.registry.get(call.skill)
        assert skill is not None, "the decider denies withdrawn skills"
        # What is journaled is what runs.
        errand = Errand(scope=scope, call=call, verdict=verdict, skill=skill, arguments=_value(call.arguments))
        return await self.dispatcher.dispatch(errand, max(until - asyncio.get_running_loop().time(), 0))

    async def _park(self, scope: Scope, call: Call, verdict: Verdict) -> Call | None:
        """Journal that the call waits, then see to it that its review is open; both may be done again after a crash."""
        if call.state is CallState.PARKED and call.review_id:
            return call
        if call.state is CallState.INTENDED:
            parked = await self.journal.park(scope, call, verdict)
            if parked is None:
                return None
            call = parked
        return await self._open_review(scope, call, verdict.decision_id, verdict.agent_message)

    async def _open_review(self, scope: Scope, call: Call, decision_id: str, agent_message: str) -> Call | None:
        """See to it that the review of a parked call is open and its row names it; None when it has moved on."""
        review_id = await self.policy.open_review(call.id, call.action_digest, decision_id)
        opened = Verdict(action=Action.PARK, decision_id=decision_id, review_id=review_id, agent_message=agent_message)
        return await self.journal.park(scope, call, opened)


def _value(canonical: bytes) -> dict[str, Any]:
    return cast("dict[str, Any]", parse_json(canonical, max_bytes=ARGUMENTS_BYTES_MAX))
