"""memoryos.harness.v1.Tokens."""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from memoryos.harness.v1 import tokens_pb2, tokens_pb2_grpc
from memoryos_core.canonical import canonical_json
from memoryos_core.clock import Clock
from memoryos_grpc import caller, scope

from memoryos_harness.agent_ports import AgentCatalog
from memoryos_harness.domain.revocations import Revocation
from memoryos_harness.operations.exchange_token import WantedToken, exchange_token
from memoryos_harness.operations.revoke_access import list_revocations, restore_access, revoke_access
from memoryos_harness.ports import RevocationStore, TokenIssuer
from memoryos_harness.servicers.requests import request_key

_SERVICE: Final = "memoryos.harness.v1.Tokens"


class TokensServicer(tokens_pb2_grpc.TokensServicer):
    """Parses, runs one operation, renders."""

    def __init__(self, issuer: TokenIssuer, revocations: RevocationStore, agents: AgentCatalog, clock: Clock) -> None:
        self._issuer = issuer
        self._revocations = revocations
        self._agents = agents
        self._clock = clock

    async def ExchangeToken(
        self, request: tokens_pb2.ExchangeTokenRequest, context: grpc.aio.ServicerContext
    ) -> tokens_pb2.ExchangeTokenResponse:
        """Give an agent of the caller a token."""
        wanted = WantedToken(
            agent=request.agent,
            audience=tuple(request.audience),
            read_paths=tuple(request.read_paths),
            write_paths=tuple(request.write_paths),
            ttl_s=request.ttl_s,
        )
        issued = await exchange_token(self._issuer, self._agents, self._clock, caller().identity, wanted)
        answer = tokens_pb2.ExchangeTokenResponse(access_token=issued.token)
        answer.expire_time.FromDatetime(issued.expire_time)
        return answer

    async def GetKeys(
        self, request: tokens_pb2.GetKeysRequest, context: grpc.aio.ServicerContext
    ) -> tokens_pb2.GetKeysResponse:
        """Give the public keys of the tokens of tasks and agents."""
        return tokens_pb2.GetKeysResponse(jwks_json=canonical_json(self._issuer.keys()))

    async def RevokeAccess(
        self, request: tokens_pb2.RevokeAccessRequest, context: grpc.aio.ServicerContext
    ) -> tokens_pb2.RevokeAccessResponse:
        """Revoke."""
        key = request_key(f"{_SERVICE}/RevokeAccess", request)
        kept = await revoke_access(self._revocations, scope(), request.subject, key)
        return tokens_pb2.RevokeAccessResponse(revocation=_message(kept))

    async def RestoreAccess(
        self, request: tokens_pb2.RestoreAccessRequest, context: grpc.aio.ServicerContext
    ) -> tokens_pb2.RestoreAccessResponse:
        """Take a revocation back."""
        key = request_key(f"{_SERVICE}/RestoreAccess", request)
        await restore_access(self._revocations, scope(), request.subject, key)
        return tokens_pb2.RestoreAccessResponse()

    async def ListRevocations(
        self, request: tokens_pb2.ListRevocationsRequest, context: grpc.aio.ServicerContext
    ) -> tokens_pb2.ListRevocationsResponse:
        """List revocations."""
        found = await list_revocations(self._revocations, scope())
        return tokens_pb2.ListRevocationsResponse(revocations=[_message(kept) for kept in found])


def _message(kept: Revocation) -> tokens_pb2.Revocation:
    time = Timestamp()
    time.FromDatetime(kept.create_time)
    return tokens_pb2.Revocation(subject=kept.subject, actor=kept.actor, create_time=time)
