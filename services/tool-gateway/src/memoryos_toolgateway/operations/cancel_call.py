"""Withdraw a call that was not sent, and prove which it was."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memoryos_core.ids import IdSource
from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import Call, CallState
from memoryos_toolgateway.errors import CallNotCancellable, CallNotFound
from memoryos_toolgateway.operations.get_call import get_call
from memoryos_toolgateway.ports import CallBook, Journal

_WAITING: Final = frozenset({CallState.INTENDED, CallState.PARKED})
_TRIES: Final = 8
"""A call that waits moves at most from INTENDED to PARKED before it is sent or ended."""


class Proof(StrEnum):
    """What is known of a call that was to be withdrawn."""

    NOT_SENT = "not_sent"
    SENT = "sent"
    ENDED_UNSENT = "ended_unsent"


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelCall:
    """Withdraws calls. Of a withdrawal and a dispatch that race, exactly one wins: both are one compare-and-set."""

    journal: Journal
    book: CallBook
    ids: IdSource

    async def by_id(self, scope: Scope, call_id: str) -> tuple[Call, Proof]:
        """Withdraw a call that the scope may see whole; raises CallNotFound, CallNotCancellable."""
        for _ in range(_TRIES):
            call = await get_call(self.journal, scope, call_id)
            if not call.concerns(scope):
                raise CallNotFound
            if call.state not in _WAITING:
                return call, Proof.SENT if call.dispatches else Proof.ENDED_UNSENT
            ended = await self.book.cancel(scope, call)
            if ended is not None:
                return ended, Proof.NOT_SENT
        raise CallNotCancellable  # it moves on faster than it can be caught

    async def by_request(self, scope: Scope, issuer: str, request_id: str) -> tuple[Call, Proof]:
        """Withdraw the call of a request of this issuer, or see to it that it is refused when it comes."""
        refused = await self.book.refuse(scope, issuer, request_id, self.ids.new("call"))
        call = await self.journal.find(scope, issuer, request_id, 0)
        if call is None or not call.concerns(scope):
            raise CallNotFound
        return (call, Proof.NOT_SENT) if refused else await self.by_id(scope, call.id)
