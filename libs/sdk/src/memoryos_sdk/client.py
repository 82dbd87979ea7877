"""The client: one object, one channel per service, one caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import tzinfo
from functools import cached_property
from pathlib import Path
from typing import Self

import grpc
from memoryos.harness.v1 import sessions_pb2_grpc, tasks_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2_grpc
from memoryos.policy.v1 import policy_pb2_grpc, reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc

from memoryos_sdk.decisions import Decisions
from memoryos_sdk.invocation import TIMEOUT_S, Channels, Invocation, TokenSource
from memoryos_sdk.memory import MemoryFS
from memoryos_sdk.reviews import Reviews
from memoryos_sdk.sessions import Sessions
from memoryos_sdk.tasks import Tasks
from memoryos_sdk.tools import Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """host:port of each service; one that is not used may be left out."""

    memoryfs: str = ""
    tool_gateway: str = ""
    policy: str = ""
    harness: str = ""

    @classmethod
    def of(cls, addresses: Mapping[str, str]) -> Self:
        """Give addresses by service name ("tool-gateway" and "tool_gateway" are one); others are ignored."""
        known = {name.replace("-", "_"): address for name, address in addresses.items()}
        return cls(**{f.name: known.get(f.name, "") for f in fields(cls)})

    @classmethod
    def load(cls, file: Path) -> Self:
        """Give the addresses that `mos up` keeps in <data>/run/addresses.json."""
        return cls.of(json.loads(file.read_text(encoding="utf-8")))


class MemoryOS:
    """Memory OS as one caller sees it.

    `zone` is the zone of bare dates (None: the machine's), `timeout_s` the
    total deadline of a call, retries included. Use it as an async context
    manager; `as_caller` gives the same connections to another token.
    """

    def __init__(
        self,
        addresses: Addresses | Mapping[str, str],
        token: TokenSource,
        *,
        zone: tzinfo | None = None,
        timeout_s: float = TIMEOUT_S,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._addresses = addresses if isinstance(addresses, Addresses) else Addresses.of(addresses)
        self._channels = Channels(credentials)
        self._timeout_s = timeout_s
        self._invocation = Invocation(token, zone=zone, timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, also those of callers made from this client."""
        await self._channels.close()

    def as_caller(self, token: TokenSource, *, zone: tzinfo | None = None) -> MemoryOS:
        """Give a client of another caller over the same connections; bare dates are in `zone` or as here."""
        other = MemoryOS(self._addresses, token, zone=zone or self._invocation.zone, timeout_s=self._timeout_s)
        other._channels = self._channels
        return other

    @cached_property
    def fs(self) -> MemoryFS:
        """Memory."""
        return MemoryFS(memoryfs_pb2_grpc.MemoryFSStub(self._channels.get(self._addresses.memoryfs)), self._invocation)

    @cached_property
    def tools(self) -> Tools:
        """Skills and calls."""
        channel = self._channels.get(self._addresses.tool_gateway)
        return Tools(tool_gateway_pb2_grpc.ToolGatewayStub(channel), self._invocation)

    @cached_property
    def tasks(self) -> Tasks:
        """Durable agent tasks."""
        return Tasks(tasks_pb2_grpc.TasksStub(self._channels.get(self._addresses.harness)), self._invocation)

    @cached_property
    def sessions(self) -> Sessions:
        """Conversations."""
        return Sessions(sessions_pb2_grpc.SessionsStub(self._channels.get(self._addresses.harness)), self._invocation)

    @cached_property
    def reviews(self) -> Reviews:
        """Human approval."""
        return Reviews(reviews_pb2_grpc.ReviewsStub(self._channels.get(self._addresses.policy)), self._invocation)

    @cached_property
    def decisions(self) -> Decisions:
        """What policy decided."""
        return Decisions(policy_pb2_grpc.PolicyStub(self._channels.get(self._addresses.policy)), self._invocation)
