"""What is done with the calls of one reply of the model, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from memoryos_harness.domain.actions import Action, StartChildren
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.children import child_requests, unanswered
from memoryos_harness.domain.failures import next_for_request
from memoryos_harness.domain.journal_forms import tool_requests
from memoryos_harness.domain.tasks import Step


def next_in_turn(agent: Agent, steps: Sequence[Step], reply: Step) -> Action | None:
    """Give what is done next for the calls that the model asked for; None when each has its answer."""
    children = child_requests(agent, steps, reply)
    for request in tool_requests(reply):
        if any(request == asked for asked, _ in children):
            waiting = unanswered(steps, children)
            if waiting:
                return StartChildren(waiting)
            continue
        action = next_for_request(agent, steps, request)
        if action is not None:
            return action
    return None
