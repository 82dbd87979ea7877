"""Start a task of an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memoryos_core.scope import Scope
from memoryos_core.tokens import Identity
from memoryos_telemetry.context import current_traceparent

from memoryos_harness.agent_ports import AgentCatalog
from memoryos_harness.domain.agents import Limits
from memoryos_harness.domain.grants import granted
from memoryos_harness.domain.tasks import Task
from memoryos_harness.ports import NewTask, Request, TaskStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a caller wishes of a task beside its answer; 0: as the agent's file says."""

    priority: int = 0
    steps: int = 0
    tokens: int = 0
    calls: int = 0
    seconds: int = 0

    def narrowing(self, limits: Limits) -> Limits | None:
        """Give the limits with these where they are lower; None where none is."""
        names = ("steps", "tokens", "calls", "seconds")
        asked = {name: int(getattr(self, name)) for name in names}
        lower = {name: value for name, value in asked.items() if 0 < value < int(getattr(limits, name))}
        return limits.model_copy(update=lower) if lower else None


NO_WISH: Final = Wish()


async def submit_task(
    store: TaskStore,
    agents: AgentCatalog,
    identity: Identity,
    *,
    agent_name: str,
    session_id: str,
    text: str,
    request: Request,
    wish: Wish = NO_WISH,
) -> Task:
    """Give a kept task that some worker will run, whatever dies meanwhile.

    The agent is pinned as its file says now, in the version released to the caller. Raises AgentNotFound,
    SessionNotFound for a session that is not the caller's, and NotAllowed when
    the agent asks for paths that the caller's token does not reach. What is
    wished for narrows the agent's limits, and never widens them.
    """
    known = agents.find(agent_name, identity)
    agent = known.agent
    task = NewTask(
        session_id=session_id,
        agent=agent,
        grant=granted(identity),
        input=text,
        traceparent=current_traceparent(),
        limits=wish.narrowing(agent.limits),
        agent_label=known.label,
        priority=wish.priority,
    )
    return await store.submit(Scope.of(identity), task, request)
