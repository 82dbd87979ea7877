"""Give one call of the journal to whom it belongs."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_toolgateway.domain.calls import SEES_ALL, Call
from memoryos_toolgateway.errors import CallNotFound
from memoryos_toolgateway.ports import Journal


async def get_call(journal: Journal, scope: Scope, call_id: str) -> Call:
    """Give the call, or raise CallNotFound.

    Its user sees it whole, and so do the agent that made it and those above in
    its chain. Auditors and operators of the tenant see it without contents. For
    everybody else it is not there.
    """
    call = await journal.get(scope, call_id, with_contents=True)
    if call is None:
        raise CallNotFound
    if call.concerns(scope):
        return call
    if scope.roles.isdisjoint(SEES_ALL):
        raise CallNotFound
    return call.without_contents()


async def whole_result(journal: Journal, scope: Scope, call: Call) -> bytes:
    """Give all of a result that was cut, masked as it is; empty when it has gone, and for others."""
    if not call.full_result_bytes or not call.concerns(scope):
        return b""
    return await journal.full_result(scope, call)
