"""RPCs about calls that were made: read, watched, withdrawn, settled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb
from memoryos_core.errors import InvalidField
from memoryos_grpc.caller import Caller, caller
from memoryos_grpc.caller import scope as caller_scope

from memoryos_toolgateway.domain.calls import CallState
from memoryos_toolgateway.operations.cancel_call import CancelCall, Proof
from memoryos_toolgateway.operations.get_call import get_call, whole_result
from memoryos_toolgateway.operations.list_calls import list_calls
from memoryos_toolgateway.operations.reconcile_call import ReconcileCall
from memoryos_toolgateway.operations.watch_call import CallWatch
from memoryos_toolgateway.ports import CallBook, CallFilter, Journal
from memoryos_toolgateway.render import call_message

_PROOFS: Final = {
    Proof.NOT_SENT: pb.CANCEL_PROOF_NOT_SENT,
    Proof.SENT: pb.CANCEL_PROOF_SENT,
    Proof.ENDED_UNSENT: pb.CANCEL_PROOF_ENDED_UNSENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalCalls:
    """What the RPCs about calls are made of."""

    journal: Journal
    book: CallBook
    watch: CallWatch
    cancel: CancelCall
    reconcile: ReconcileCall


class CallsServicer:
    """The RPCs about calls of ToolGateway."""

    _calls: JournalCalls

    async def GetCall(self, request: pb.GetCallRequest, context: Any) -> pb.GetCallResponse:
        """Give one call of the journal."""
        who = caller_scope()
        call = await get_call(self._calls.journal, who, request.id)
        whole = await whole_result(self._calls.journal, who, call) if request.full_result else b""
        return pb.GetCallResponse(call=call_message(call), full_result=whole)

    async def ListCalls(self, request: pb.ListCallsRequest, context: Any) -> pb.ListCallsResponse:
        """List calls, newest first."""
        wanted = CallFilter(
            state=_state(request.state), skill=request.skill, session_id=request.session_id, task_id=request.task_id
        )
        page = (request.page_size, request.page_token)
        found, token = await list_calls(self._calls.journal, self._calls.book, caller_scope(), wanted, page)
        return pb.ListCallsResponse(calls=map(call_message, found), next_page_token=token)

    async def WatchCall(self, request: pb.WatchCallRequest, context: Any) -> AsyncIterator[pb.WatchCallResponse]:
        """Stream one call whenever it changes state."""
        async for call in self._calls.watch.run(caller_scope(), request.id):
            yield pb.WatchCallResponse(call=call_message(call))

    async def CancelCall(self, request: pb.CancelCallRequest, context: Any) -> pb.CancelCallResponse:
        """Withdraw a call that was not sent."""
        if bool(request.id) is bool(request.call_request_id):
            raise InvalidField.of("id", "exactly one of id and call_request_id is given")
        cancel, who = self._calls.cancel, caller_scope()
        if request.id:
            call, proof = await cancel.by_id(who, request.id)
        else:
            call, proof = await cancel.by_request(who, issuer_of(caller()), request.call_request_id)
        return pb.CancelCallResponse(call=call_message(call), proof=_PROOFS[proof])

    async def ReconcileCall(self, request: pb.ReconcileCallRequest, context: Any) -> pb.ReconcileCallResponse:
        """End a call whose outcome is unknown."""
        reconcile, who = self._calls.reconcile, caller_scope()
        if request.outcome == pb.RECONCILE_OUTCOME_UNSPECIFIED:
            call = await reconcile.ask(who, request.id)
        else:
            happened = request.outcome == pb.RECONCILE_OUTCOME_HAPPENED
            call = await reconcile.say(who, request.id, happened=happened, comment=request.comment)
        return pb.ReconcileCallResponse(call=call_message(call))


def issuer_of(who: Caller) -> str:
    """Give whose request ids the caller uses: a service's own, else those of the principal that acts."""
    return f"service:{who.service}" if who.service else who.scope.actor


def _state(value: pb.CallState.ValueType) -> CallState | None:
    if value == pb.CALL_STATE_UNSPECIFIED:
        return None
    return CallState(pb.CallState.Name(value).removeprefix("CALL_STATE_"))
