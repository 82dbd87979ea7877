"""Carry out a decided call: once, or as often as its effect class makes harmless."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memoryos_core.clock import Clock
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import MemoryOSError
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Call, CallState, NewCall, Outcome, OutcomeKind
from memoryos_toolgateway.domain.decisions import Verdict
from memoryos_toolgateway.domain.obligations import Obligations, RateLimit
from memoryos_toolgateway.domain.results import shown
from memoryos_toolgateway.domain.skill import EffectClass, Skill
from memoryos_toolgateway.operations.fall_back import Fallbacks
from memoryos_toolgateway.operations.upstream_gate import Permit, UpstreamClosed, UpstreamGate
from memoryos_toolgateway.ports import Attempt, Connector, Dispatch, Journal, RateExceeded

SEND_MARGIN_S: Final = 1.0
"""Time between the last attempt's end and the deadline, for the journal."""
BACKOFF_S: Final = 0.2
"""Pause before the second attempt; doubled for each further one."""
FINISH_TRIES: Final = 3
THREAD_BYTES_MIN: Final = 65_536
"""Longer results are masked beside the event loop."""
_BEFORE: Final = Outcome(kind=OutcomeKind.NOT_SENT, error_code=messages.NOT_SENT_CODE, agent_message=messages.NOT_SENT)
_DOUBT: Final = Outcome(kind=OutcomeKind.UNKNOWN, error_code=messages.UNKNOWN_CODE, agent_message=messages.UNKNOWN)
_READ_FAILED: Final = Outcome(
    kind=OutcomeKind.REFUSED, error_code=messages.READ_FAILED_CODE, agent_message=messages.READ_FAILED
)
_FACTS: Final = {"untrusted": "untrusted_content", "personal": "personal_data"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """A decided call on its way."""

    scope: Scope
    call: Call | NewCall
    """A new one is journaled as it is sent."""
    verdict: Verdict
    skill: Skill
    arguments: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class CallDispatcher:
    """Sends calls. A dispatch goes on when its caller has left, so that its end is journaled."""

    journal: Journal
    connectors: Mapping[type, Connector]
    clock: Clock
    gate: UpstreamGate
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    running: set[asyncio.Task[Call | None]] = field(default_factory=set)

    async def dispatch(self, errand: Errand, wait_s: float) -> Call | None:
        """Move the call to DISPATCHED and carry it out; None when another caller moved it first, or after `wait_s`.

        It is in the journal in either case.

        A rate that is used up, or an upstream that is out of order, ends a call
        before it is sent; one that waits on an approval, or that may have
        happened, stays as it is. Cancelling the caller does not cancel the
        effect: it ends in the background, and `drain` waits for it.
        """
        journaled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(errand, journaled))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        await asyncio.wait({task}, timeout=wait_s)
        if isinstance(errand.call, NewCall) and not task.done():
            either: set[asyncio.Future[Any]] = {task, journaled}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None

    async def drain(self) -> None:
        """Return when no dispatch runs here any more."""
        while self.running:
            await asyncio.wait(set(self.running))

    async def _run(self, errand: Errand, journaled: asyncio.Future[None]) -> Call | None:
        try:
            permit = await self.gate.enter(errand.scope.tenant, errand.skill.upstream)
        except UpstreamClosed as closed:
            return await self._unsent(errand, closed.error_code, messages.upstream_closed(closed.retry_after_s))
        try:
            return await self._sent(errand, permit, journaled)
        except RateExceeded as exceeded:
            message = messages.rate_limited(exceeded.retry_after_s)
            return await self._unsent(errand, messages.RATE_LIMITED_CODE, message)
        finally:
            permit.leave()

    async def _sent(self, errand: Errand, permit: Permit, journaled: asyncio.Future[None]) -> Call | None:
        skill, obligations = errand.skill, errand.verdict.obligations
        allowance_s = _allowance_s(skill)
        started = self.clock.monotonic()
        terms = Dispatch(
            verdict=errand.verdict, allowance_s=allowance_s, timeout_s=skill.timeout_s, rates=obligations.rates
        )
        sent = await self.journal.dispatch(errand.scope, errand.call, terms)
        journaled.set_result(None)
        if sent is None:
            return None
        crash_point("gateway.call.after_dispatch")
        outcome = await self._attempts(errand, sent, permit, started + allowance_s - SEND_MARGIN_S)
        crash_point("gateway.call.after_effect")
        outcome = self.fallbacks.apply(errand.scope.tenant, skill, outcome)
        outcome = await _as_shown(outcome, skill, obligations)
        given_back = obligations.rates if outcome.kind is OutcomeKind.NOT_SENT else ()
        ended = await self._finish(errand.scope, sent, outcome, given_back)
        crash_point("gateway.call.after_result")
        return ended

    async def _attempts(self, errand: Errand, call: Call, permit: Permit, until: float) -> Outcome:
        """Give the outcome of the last attempt. None is started that could end after `until`, or after the
        deadline by the database's clock, or when the call is no longer this sender's.

        Only an attempt that may be repeated without harm, or that provably sent
        nothing, is followed by another one.
        """
        skill = errand.skill
        known = _BEFORE if call.dispatches == 1 else _DOUBT
        connector = self.connectors[type(skill.connector)]
        for number in range(skill.attempts_max):
            if number:
                await asyncio.sleep(BACKOFF_S * 2 ** (number - 1))
            if self.clock.monotonic() + skill.timeout_s > until or not await self._is_still_ours(call, skill):
                break
            outcome = await connector.attempt(Attempt(skill=skill, call_id=call.id, arguments=errand.arguments))
            well = permit.note(failed=outcome.kind in (OutcomeKind.UNKNOWN, OutcomeKind.NOT_SENT))
            known = _learn(known, outcome, skill)
            lost = outcome.kind is OutcomeKind.UNKNOWN and skill.effect_class.may_repeat
            if not well or (not lost and outcome.kind is not OutcomeKind.NOT_SENT):
                break
        return known

    async def _is_still_ours(self, call: Call, skill: Skill) -> bool:
        try:
            return await self.journal.may_send(call, skill.timeout_s)
        except MemoryOSError as error:
            _log.warning("call not sent", extra={"call_id": call.id, "reason": error.reason})
            return False

    async def _unsent(self, errand: Errand, error_code: str, agent_message: str) -> Call | None:
        """End a call that nothing was sent of; one that an approval or a doubt holds stays, and its caller is told."""
        call = errand.call
        if isinstance(call, NewCall):
            call, fresh = await self.journal.open(errand.scope, call)
            crash_point("gateway.call.after_intent")
            if not fresh:
                return None
        if call.state is not CallState.INTENDED:
            now = await self.journal.find(errand.scope, call.issuer, call.request_id, 0)
            if now is None or now.state is not call.state:
                return None  # another caller got through with it
            doubtful = now.state is CallState.UNKNOWN
            return now if doubtful else replace(now, error_code=error_code, agent_message=agent_message)
        outcome = Outcome(kind=OutcomeKind.NOT_SENT, error_code=error_code, agent_message=agent_message)
        outcome = self.fallbacks.apply(errand.scope.tenant, errand.skill, outcome)
        return await self.journal.end_unsent(errand.scope, call, outcome, errand.verdict)

    async def _finish(
        self, scope: Scope, call: Call, outcome: Outcome, given_back: tuple[RateLimit, ...]
    ) -> Call | None:
        """Journal the outcome, with patience: what is not journaled becomes UNKNOWN at its deadline."""
        for number in range(FINISH_TRIES):
            try:
                return await self.journal.finish(scope, call, outcome, given_back)
            except MemoryOSError as error:
                _log.warning("result not journaled", extra={"call_id": call.id, "reason": error.reason})
                if number + 1 == FINISH_TRIES:
                    raise
                await asyncio.sleep(BACKOFF_S * 2**number)
        return None


async def _as_shown(outcome: Outcome, skill: Skill, obligations: Obligations) -> Outcome:
    """Give the outcome with its result masked and cut, and with what it brings into a session."""
    if outcome.state is not CallState.SUCCEEDED:
        return outcome
    facts = outcome.facts | {_FACTS[name] for name in skill.returns} | obligations.taints
    if len(outcome.result) < THREAD_BYTES_MIN:
        result = shown(outcome.result, obligations, skill.output_limit_bytes)
    else:
        result = await asyncio.to_thread(shown, outcome.result, obligations, skill.output_limit_bytes)
    return replace(outcome, result=result.result, whole=result.whole, facts=frozenset(facts))


def _allowance_s(skill: Skill) -> float:
    pauses_s: float = sum(BACKOFF_S * 2.0**number for number in range(skill.attempts_max - 1))
    return skill.timeout_s * skill.attempts_max + pauses_s + 2 * SEND_MARGIN_S


def _learn(known: Outcome, outcome: Outcome, skill: Skill) -> Outcome:
    """Give what is known after one more attempt.

    A refusal, or proof that nothing was sent, speaks of its own attempt only:
    once an earlier one is in doubt (deleted, answer lost, then "not found"), only
    success ends the doubt. Reads have no effect to be in doubt about.
    """
    if skill.effect_class is EffectClass.READ:
        return _READ_FAILED if outcome.kind is OutcomeKind.UNKNOWN else outcome
    doubt = known.kind is OutcomeKind.UNKNOWN and outcome.kind is not OutcomeKind.SUCCEEDED
    return known if doubt else outcome
