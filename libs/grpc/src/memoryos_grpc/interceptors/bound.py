"""Last: a caller's scope is narrowed by what the service itself keeps, for every method alike."""

from __future__ import annotations

from dataclasses import replace

from memoryos_core.errors import RoleRequired

from memoryos_grpc.call import IncomingCall
from memoryos_grpc.caller import set_caller
from memoryos_grpc.ports import Proceed, ScopeBound


class Bound:
    """Puts the narrowed scope in the place of the token's own: no handler sees the wider one."""

    def __init__(self, bound: ScopeBound) -> None:
        self._bound = bound

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Narrow, or refuse the call with what the service raises: an unknown bound lets nothing through."""
        who = call.caller
        if who is None:  # an order of interceptors that never authenticates
            raise RoleRequired
        narrowed = await self._bound.narrow(who.scope)
        if narrowed is not who.scope:
            call.caller = replace(who, bound=narrowed)
            set_caller(call.caller)
        await proceed(call)
