"""Carry out a decided call: once, or as often as its effect class makes harmless."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from memoryos_core.clock import Clock
from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import MemoryOSError
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain import messages
from memoryos_toolgateway.domain.calls import Call, Outcome, OutcomeKind
from memoryos_toolgateway.domain.decisions import Verdict
from memoryos_toolgateway.domain.skill import EffectClass, Skill
from memoryos_toolgateway.ports import Attempt, Connector, Journal

SEND_MARGIN_S: Final = 1.0
"""Time between the last attempt's end and the deadline, for the journal."""
BACKOFF_S: Final = 0.2
"""Pause before the second attempt; doubled for each further one."""
FINISH_TRIES: Final = 3
_BEFORE: Final = Outcome(kind=OutcomeKind.NOT_SENT, error_code=messages.NOT_SENT_CODE, agent_message=messages.NOT_SENT)
_DOUBT: Final = Outcome(kind=OutcomeKind.UNKNOWN, error_code=messages.UNKNOWN_CODE, agent_message=messages.UNKNOWN)
_READ_FAILED: Final = Outcome(
    kind=OutcomeKind.REFUSED, error_code=messages.READ_FAILED_CODE, agent_message=messages.READ_FAILED
)
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class CallDispatcher:
    """Sends calls. A dispatch goes on when its caller has left, so that its end is journaled."""

    journal: Journal
    connectors: Mapping[type, Connector]
    clock: Clock
    running: set[asyncio.Task[Call | None]] = field(default_factory=set)

    def connector(self, skill: Skill) -> Connector:
        """Give the connector that carries out this skill."""
        return self.connectors[type(skill.connector)]

    async def dispatch(
        self, scope: Scope, call: Call, verdict: Verdict, skill: Skill, arguments: dict[str, Any]
    ) -> Call | None:
        """Move the call to DISPATCHED and carry it out; None when another caller moved it first.

        Cancelling the caller does not cancel the effect: it ends in the
        background, and `drain` waits for it.
        """
        task = asyncio.create_task(self._run(scope, call, verdict, skill, arguments))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Return when no dispatch runs here any more."""
        while self.running:
            await asyncio.wait(set(self.running))

    async def _run(
        self, scope: Scope, call: Call, verdict: Verdict, skill: Skill, arguments: dict[str, Any]
    ) -> Call | None:
        allowance_s = _allowance_s(skill)
        started = self.clock.monotonic()
        sent = await self.journal.dispatch(scope, call, verdict, allowance_s)
        if sent is None:
            return None
        crash_point("gateway.call.after_dispatch")
        outcome = await self._attempts(sent, skill, arguments, started + allowance_s - SEND_MARGIN_S)
        crash_point("gateway.call.after_effect")
        ended = await self._finish(scope, sent, outcome)
        crash_point("gateway.call.after_result")
        return ended

    async def _attempts(self, call: Call, skill: Skill, arguments: dict[str, Any], until: float) -> Outcome:
        """Give the outcome of the last attempt. None is started that could end after `until`.

        Only an attempt that may be repeated without harm, or that provably sent
        nothing, is followed by another one.
        """
        known = _BEFORE if call.dispatches == 1 else _DOUBT
        connector = self.connector(skill)
        for number in range(skill.attempts_max):
            if number:
                await asyncio.sleep(BACKOFF_S * 2 ** (number - 1))
            if self.clock.monotonic() + skill.timeout_s > until:
                break
            outcome = await connector.attempt(Attempt(skill=skill, call_id=call.id, arguments=arguments))
            known = _learn(known, outcome, skill)
            lost = outcome.kind is OutcomeKind.UNKNOWN and skill.effect_class.may_repeat
            if not lost and outcome.kind is not OutcomeKind.NOT_SENT:
                break
        return known

    async def _finish(self, scope: Scope, call: Call, outcome: Outcome) -> Call | None:
        """Journal the outcome, with patience: what is not journaled becomes UNKNOWN at its deadline."""
        for number in range(FINISH_TRIES):
            try:
                return await self.journal.finish(scope, call, outcome)
            except MemoryOSError as error:
                _log.warning("result not journaled", extra={"call_id": call.id, "reason": error.reason})
                if number + 1 == FINISH_TRIES:
                    raise
                await asyncio.sleep(BACKOFF_S * 2**number)
        return None


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
