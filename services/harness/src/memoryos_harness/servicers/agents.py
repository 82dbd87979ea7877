"""memoryos.harness.v1.Agents."""

from __future__ import annotations

import grpc
from memoryos.harness.v1 import agents_pb2, agents_pb2_grpc
from memoryos_core.canonical import canonical_json
from memoryos_grpc import caller

from memoryos_harness.agent_ports import AgentCatalog
from memoryos_harness.domain.releases import KnownAgent


class AgentsServicer(agents_pb2_grpc.AgentsServicer):
    """Renders what the files of agents say."""

    def __init__(self, agents: AgentCatalog) -> None:
        self._agents = agents

    async def ListAgents(
        self, request: agents_pb2.ListAgentsRequest, context: grpc.aio.ServicerContext
    ) -> agents_pb2.ListAgentsResponse:
        """List agents."""
        known = self._agents.known(caller().identity)
        return agents_pb2.ListAgentsResponse(
            agents=[agent_message(one) for one in known], files_fault=self._agents.fault
        )

    async def GetAgent(
        self, request: agents_pb2.GetAgentRequest, context: grpc.aio.ServicerContext
    ) -> agents_pb2.GetAgentResponse:
        """Give an agent."""
        known = self._agents.find(request.name, caller().identity)
        message = agent_message(known)
        message.definition_json = canonical_json(known.agent.definition())
        for release, version in self._agents.versions(request.name):
            message.releases.add(label=release.label, version=version, percent=release.percent, groups=release.groups)
        return agents_pb2.GetAgentResponse(agent=message)


def agent_message(known: KnownAgent) -> agents_pb2.Agent:
    """Give the message of an agent without its definition."""
    agent = known.agent
    return agents_pb2.Agent(name=agent.name, description=agent.description, label=known.label, version=agent.version)
