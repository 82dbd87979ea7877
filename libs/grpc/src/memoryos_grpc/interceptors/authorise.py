"""Fifth: may this caller use this method at all? Before anything is looked up."""

from __future__ import annotations

from memoryos_core.errors import RoleRequired, ServiceTokenRequired

from memoryos_grpc.call import IncomingCall
from memoryos_grpc.ports import Proceed


class Authorise:
    """Holds the caller against the method's rule (memoryos_grpc.methods)."""

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Let the call through, or refuse it."""
        rule, who = call.method.rule, call.caller
        if who is None:  # an order of interceptors that never authenticates
            raise RoleRequired
        if rule.services is not None and who.service not in rule.services:
            raise ServiceTokenRequired
        if rule.roles.isdisjoint(who.identity.roles):
            raise RoleRequired
        await proceed(call)
