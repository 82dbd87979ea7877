"""The agents that a deployment knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memoryos.harness.v1 import agents_pb2

from memoryos_sdk.invocation import Invocation


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRelease:
    """Part of the users who get a version; `label` is empty for the agent's own file."""

    label: str
    version: str
    percent: int
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent in the version that the caller would get. Definition and releases are given by `get` only."""

    name: str
    description: str
    label: str
    version: str
    definition: Mapping[str, Any] | None
    releases: tuple[AgentRelease, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentList:
    """The agents by name, and what is wrong with their files now ("" when nothing is): the last good ones stand."""

    agents: tuple[Agent, ...]
    files_fault: str


class Agents:
    """Agents; made by `Client.agents`."""

    def __init__(self, stub: Any, invocation: Invocation) -> None:
        self._stub = stub
        self._invocation = invocation

    async def list(self, *, timeout_s: float | None = None) -> AgentList:
        """Give the agents by name."""
        request = agents_pb2.ListAgentsRequest()
        answer = await self._invocation.unary(self._stub.ListAgents, request, timeout_s=timeout_s)
        return AgentList(agents=tuple(agent(message) for message in answer.agents), files_fault=answer.files_fault)

    async def get(self, name: str, *, timeout_s: float | None = None) -> Agent:
        """Give one agent with its definition and how its versions are released, or raise NotFound."""
        request = agents_pb2.GetAgentRequest(name=name)
        answer = await self._invocation.unary(self._stub.GetAgent, request, timeout_s=timeout_s)
        return agent(answer.agent)


def agent(message: agents_pb2.Agent) -> Agent:
    """Give the agent of a message."""
    return Agent(
        name=message.name,
        description=message.description,
        label=message.label,
        version=message.version,
        definition=json.loads(message.definition_json) if message.definition_json else None,
        releases=tuple(
            AgentRelease(label=r.label, version=r.version, percent=r.percent, groups=tuple(r.groups))
            for r in message.releases
        ),
    )
