"""The client: one object, one channel per service, one caller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from typing import Self

import grpc
from memoryos.harness.v1 import agents_pb2_grpc, sessions_pb2_grpc, tasks_pb2_grpc, tokens_pb2_grpc
from memoryos.jobs.v1 import jobs_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2_grpc
from memoryos.policy.v1 import policy_pb2_grpc, reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc

from memoryos_sdk.agents import Agents
from memoryos_sdk.decisions import Decisions
from memoryos_sdk.index import Index
from memoryos_sdk.invocation import RETRY, TIMEOUT_S, Channels, Invocation, Retry, TokenSource
from memoryos_sdk.jobs import Jobs
from memoryos_sdk.memory import MemoryFS
from memoryos_sdk.reviews import Reviews
from memoryos_sdk.sessions import Sessions
from memoryos_sdk.tasks import Tasks
from memoryos_sdk.tokens import Tokens
from memoryos_sdk.tools import Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """host:port of each service; one that is not used may be left out."""

    memoryfs: str = ""
    tool_gateway: str = ""
    policy: str = ""
    harness: str = ""


def connect(
    *,
    token: TokenSource,
    memoryfs: str = "",
    tool_gateway: str = "",
    policy: str = "",
    harness: str = "",
    zone: tzinfo | None = None,
    timeout_s: float = TIMEOUT_S,
    retry: Retry = RETRY,
    credentials: grpc.ChannelCredentials | None = None,
) -> Client:
    """Give a client of one caller; nothing is sent before its first call.

    Addresses are host:port, and one that is not used may be left out: `mos up`
    keeps them in <data>/run/addresses.json, so `connect(token=…, **addresses)`.
    `zone` is the zone of bare dates (None: the machine's), `timeout_s` the
    total deadline of a call, retries (of UNAVAILABLE only) included. `token` may be a function that
    gives a fresh one. Without `credentials` the connection is in clear text.
    """
    addresses = Addresses(memoryfs=memoryfs, tool_gateway=tool_gateway, policy=policy, harness=harness)
    return Client(addresses, Channels(credentials), Invocation(token, zone=zone, timeout_s=timeout_s, retry=retry))


class Client:
    """Memory OS as one caller sees it; an async context manager. Made by `connect`."""

    def __init__(self, addresses: Addresses, channels: Channels, invocation: Invocation) -> None:
        self._addresses = addresses
        self._channels = channels
        self._invocation = invocation

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, also those of callers made from this client."""
        await self._channels.close()

    def as_caller(self, token: TokenSource) -> Client:
        """Give a client of another caller over the same connections, otherwise as this one."""
        return Client(self._addresses, self._channels, self._invocation.as_caller(token))

    @cached_property
    def memory(self) -> MemoryFS:
        """Memory: `fs = client.memory`."""
        return MemoryFS(memoryfs_pb2_grpc.MemoryFSStub(self._channels.get(self._addresses.memoryfs)), self._invocation)

    @cached_property
    def jobs(self) -> Jobs:
        """Long operations of MemoryFS."""
        return Jobs(jobs_pb2_grpc.JobsStub(self._channels.get(self._addresses.memoryfs)), self._invocation)

    @cached_property
    def index(self) -> Index:
        """The vector index, for operators."""
        return Index(memoryfs_pb2_grpc.MemoryFSStub(self._channels.get(self._addresses.memoryfs)), self._invocation)

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
    def agents(self) -> Agents:
        """Agents, and who gets which version."""
        return Agents(agents_pb2_grpc.AgentsStub(self._channels.get(self._addresses.harness)), self._invocation)

    @cached_property
    def sessions(self) -> Sessions:
        """Conversations."""
        return Sessions(sessions_pb2_grpc.SessionsStub(self._channels.get(self._addresses.harness)), self._invocation)

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens of agents that work for the caller, and revocations."""
        return Tokens(tokens_pb2_grpc.TokensStub(self._channels.get(self._addresses.harness)), self._invocation)

    @cached_property
    def reviews(self) -> Reviews:
        """Human approval."""
        return Reviews(reviews_pb2_grpc.ReviewsStub(self._channels.get(self._addresses.policy)), self._invocation)

    @cached_property
    def decisions(self) -> Decisions:
        """What policy decided."""
        return Decisions(policy_pb2_grpc.PolicyStub(self._channels.get(self._addresses.policy)), self._invocation)
