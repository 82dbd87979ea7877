"""Start a task of an agent."""

from __future__ import annotations

from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity
from memoryos_telemetry.context import current_traceparent

from memoryos_harness.domain.grants import granted, narrowed
from memoryos_harness.domain.tasks import Task
from memoryos_harness.ports import AgentCatalog, NewTask, Request, TaskStore


async def submit_task(
    store: TaskStore,
    agents: AgentCatalog,
    identity: Identity,
    *,
    agent_name: str,
    session_id: str,
    text: str,
    request: Request,
) -> Task:
    """Give a kept task that some worker will run, whatever dies meanwhile.

    The agent is pinned as its file says now. Raises AgentNotFound,
    SessionNotFound for a session that is not the caller's, and NotAllowed when
    the agent asks for paths that the caller's token does not reach.
    """
    agent = agents.find(agent_name)
    narrowed(identity, agent, session_id=session_id, task_id="")  # refuses here what no token could be minted for
    task = NewTask(
        session_id=session_id, agent=agent, grant=granted(identity), input=text, traceparent=current_traceparent()
    )
    return await store.submit(Scope.of(identity), task, request)
