"""End the doubt about a call: by asking its upstream, or by the word of a person."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField, MemoryOSError, RoleRequired
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import Call, CallState
from memoryos_toolgateway.domain.skill import Reconciliation, Skill
from memoryos_toolgateway.errors import CallNotFound, CallNotUnknown, UpstreamOpen
from memoryos_toolgateway.operations.upstream_gate import UpstreamClosed, UpstreamGate
from memoryos_toolgateway.ports import CallBook, Finding, Journal, Reconciler
from memoryos_toolgateway.registry import SkillRegistry

DECIDERS: Final = frozenset({"operator", "tenant-admin"})
BATCH_MAX: Final = 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileCall:
    """Settles calls of unknown outcome, never before their upstream must have let go of them."""

    journal: Journal
    book: CallBook
    reconciler: Reconciler
    registry: SkillRegistry
    gate: UpstreamGate

    async def ask(self, scope: Scope, call_id: str) -> Call:
        """Ask the upstream; give the call, still UNKNOWN where that could not tell.

        Raises CallNotUnknown, and UpstreamOpen while its circuit is open.
        """
        call = await self._doubtful(scope, call_id)
        return await self._settled_by_upstream(scope, call) or await self._now(scope, call)

    async def say(self, scope: Scope, call_id: str, *, happened: bool, comment: str) -> Call:
        """Take a person's word; raises RoleRequired, InvalidField without a comment, and CallNotUnknown.

        That is also raised while the call could still take effect.
        """
        if scope.chain or DECIDERS.isdisjoint(scope.roles):
            raise RoleRequired
        if not comment.strip():
            raise InvalidField.of("comment", "says how the outcome is known")
        call = await self._doubtful(scope, call_id)
        settled = await self.book.settle(scope, call, Finding(happened=happened, by_user=scope.user, comment=comment))
        if settled is None:
            raise CallNotUnknown
        return _for(scope, settled)

    async def sweep(self, interval_s: float) -> None:
        """Ask the upstreams of calls in doubt until cancelled; any number of replicas may do so at once."""
        while True:
            found = 0
            try:
                doubts = await self.book.doubts(BATCH_MAX)
                found = len(doubts)
            except MemoryOSError as error:
                _log.warning("doubts not swept", extra={"reason": error.reason})
                doubts = []
            for call in doubts:
                await self._sweep_one(call)
            if found < BATCH_MAX:
                await asyncio.sleep(interval_s)

    async def _sweep_one(self, call: Call) -> None:
        try:
            skill = self.registry.get(call.skill)
            if skill is None or skill.definition_digest != call.definition_digest or skill.reconciliation is None:
                await self.book.without_doubt(call)  # a person has to say
            else:
                await self._settled_by_upstream(_scope_of(call), call)
        except MemoryOSError as error:  # one that cannot be asked about does not keep the others waiting
            _log.warning("doubt not swept", extra={"call_id": call.id, "reason": error.reason})

    async def _settled_by_upstream(self, scope: Scope, call: Call) -> Call | None:
        skill = self.registry.get(call.skill)
        if skill is None or skill.definition_digest != call.definition_digest or skill.reconciliation is None:
            return None
        full = await self.journal.get(_scope_of(call), call.id, with_contents=True)
        happened = None if full is None else await self._asked(skill, skill.reconciliation, full)
        crash_point("gateway.reconcile.after_lookup")
        if happened is None:
            return None
        settled = await self.book.settle(scope, call, Finding(happened=happened))
        return None if settled is None else _for(scope, settled)

    async def _asked(self, skill: Skill, how: Reconciliation, call: Call) -> bool | None:
        try:
            permit = await self.gate.enter(call.tenant, how.lookup.request.endpoint)
        except UpstreamClosed as closed:
            raise UpstreamOpen(retry_after_s=closed.retry_after_s) from None
        try:
            return await self.reconciler.ask(skill, call)
        finally:
            permit.leave()

    async def _doubtful(self, scope: Scope, call_id: str) -> Call:
        call = await self._now_by_id(scope, call_id)
        if call.state is not CallState.UNKNOWN:
            raise CallNotUnknown
        return call

    async def _now(self, scope: Scope, call: Call) -> Call:
        return await self._now_by_id(scope, call.id)

    async def _now_by_id(self, scope: Scope, call_id: str) -> Call:
        call = await self.journal.get(scope, call_id, with_contents=True)
        if call is None or not (call.concerns(scope) or not DECIDERS.isdisjoint(scope.roles)):
            raise CallNotFound
        return _for(scope, call)


def _for(scope: Scope, call: Call) -> Call:
    return call if call.concerns(scope) else call.without_contents()


def _scope_of(call: Call) -> Scope:
    """The scope in which the call was asked for, for work that no caller waits for: it reads nothing but its row."""
    return Scope(
        tenant=call.tenant,
        user=call.user,
        principals=(f"user:{call.user}",),
        clearance=0,
        roles=frozenset(),
        chain=call.chain,
        session_id=call.session_id,
        task_id=call.task_id,
        read_paths=(),
        write_paths=(),
    )
