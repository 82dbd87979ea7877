"""Tokens of agents that work for the caller, and whom none is made for any more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from memoryos.harness.v1 import tokens_pb2

from memoryos_sdk.invocation import Invocation, new_request_id


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToken:
    """A token of an agent, and when it expires at the latest."""

    access_token: str
    expire_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """What no token is made for: user:…, agent:…/… or the name of a task; who said so, and when."""

    subject: str
    actor: str
    create_time: datetime


class Tokens:
    """Tokens of agents: narrowed from the caller's own, never wider."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def exchange(
        self,
        agent: str,
        *,
        audience: Sequence[str] = (),
        read_paths: Sequence[str] = (),
        write_paths: Sequence[str] = (),
        ttl_s: int = 0,
    ) -> AgentToken:
        """Give a token of an agent that works for the caller: five minutes at most, and no longer than the caller's.

        Without `audience` it is good for every service that an agent calls (a
        skill's call needs both tool-gateway and policy); memory that is not named in the paths is out of its reach.
        """
        request = tokens_pb2.ExchangeTokenRequest(
            agent=agent, audience=audience, read_paths=read_paths, write_paths=write_paths, ttl_s=ttl_s
        )
        answer = await self._invocation.unary(self._stub.ExchangeToken, request)
        return AgentToken(access_token=answer.access_token, expire_time=answer.expire_time.ToDatetime(UTC))

    async def keys(self) -> dict[str, Any]:
        """Give the public keys that tokens of agents and tasks are signed with, as a JWK set."""
        answer = await self._invocation.unary(self._stub.GetKeys, tokens_pb2.GetKeysRequest())
        found: dict[str, Any] = json.loads(answer.jwks_json)
        return found

    async def revoke(self, subject: str, *, request_id: str | None = None) -> Revocation:
        """Stop every token to be made for user:NAME, agent:USER/NAME or a task, and what works for it."""
        request = tokens_pb2.RevokeAccessRequest(subject=subject, request_id=request_id or new_request_id())
        return revocation((await self._invocation.unary(self._stub.RevokeAccess, request)).revocation)

    async def restore(self, subject: str, *, request_id: str | None = None) -> None:
        """Take a revocation back; tasks that ended by it stay ended."""
        request = tokens_pb2.RestoreAccessRequest(subject=subject, request_id=request_id or new_request_id())
        await self._invocation.unary(self._stub.RestoreAccess, request)

    async def revoked(self) -> tuple[Revocation, ...]:
        """Give the newest revocations of the tenant, newest first."""
        answer = await self._invocation.unary(self._stub.ListRevocations, tokens_pb2.ListRevocationsRequest())
        return tuple(revocation(found) for found in answer.revocations)


def revocation(message: tokens_pb2.Revocation) -> Revocation:
    """Give the revocation of a message."""
    return Revocation(subject=message.subject, actor=message.actor, create_time=message.create_time.ToDatetime(UTC))
