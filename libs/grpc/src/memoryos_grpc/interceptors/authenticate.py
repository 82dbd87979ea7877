"""Fourth: who calls, from the two signed tokens and from nothing else (I2)."""

from __future__ import annotations

from typing import Final

from memoryos_core.clock import Clock
from memoryos_core.errors import TokenInvalid, TokenMissing
from memoryos_core.tokens import TokenVerifier
from memoryos_telemetry import names
from opentelemetry import trace

from memoryos_grpc.call import IncomingCall
from memoryos_grpc.caller import Caller, set_caller
from memoryos_grpc.ports import Proceed
from memoryos_grpc.token_cache import VerifiedTokens

AUTHORIZATION: Final = "authorization"
SERVICE_TOKEN: Final = "x-memoryos-service-token"  # noqa: S105 -- the name of a header
_SCHEME: Final = "bearer "
_TWINS: Final = frozenset({f"{AUTHORIZATION}-bin", f"{SERVICE_TOKEN}-bin"})


class Authenticate:
    """Verifies the subject token, and the service token where there is one.

    A doubled header or a binary twin could be read differently by two readers:
    refused. Any other metadata never says who calls.
    """

    def __init__(self, verifier: TokenVerifier, clock: Clock) -> None:
        self._verifier = verifier
        self._tokens = VerifiedTokens(verifier, clock)

    async def intercept(self, call: IncomingCall, proceed: Proceed) -> None:
        """Set the caller of the call, or refuse it."""
        bearer = service_token = None
        for key, value in call.metadata:
            if key == AUTHORIZATION:
                if bearer is not None:
                    raise TokenInvalid("There is more than one authorization header.")
                bearer = value
            elif key == SERVICE_TOKEN:
                if service_token is not None:
                    raise TokenInvalid("There is more than one service token.")
                service_token = value
            elif key in _TWINS:
                raise TokenInvalid("Tokens are not sent as binary metadata.")
        if not bearer:
            raise TokenMissing
        if not isinstance(bearer, str) or bearer[: len(_SCHEME)].lower() != _SCHEME:
            raise TokenInvalid
        service = None
        if service_token is not None:
            if not isinstance(service_token, str):
                raise TokenInvalid
            service = self._tokens.service(service_token)
        token = bearer[len(_SCHEME) :]
        who = self._mandated(token, service) if call.method.rule.mandated else self._tokens.caller(token, service)
        call.caller = who
        set_caller(who)
        span = trace.get_current_span()
        if service:
            span.set_attribute(names.CALLER_SERVICE, service)
        if who.identity.task_id:
            span.set_attribute(names.TASK_ID, who.identity.task_id)
        await proceed(call)

    def _mandated(self, token: str, service: str | None) -> Caller:
        identity = self._verifier.mandate(token)
        if identity.issuer != service:  # a mandate is its own service's to use
            raise TokenInvalid
        return Caller(identity=identity, service=service, subject_token=token)
