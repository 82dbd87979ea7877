"""What comes next in a task, read from its journal alone.

The journal is the list of steps in order. Because the next action is a pure
function of it, a worker that takes a task over does exactly what the one
before it would have done, and nothing that it had finished. There is no clock
in it: how long a try waits is said, and counted from the end of the step that
failed. The forms of the journaled JSON are in journal_forms.py.

A failed MEMORY_READ or MODEL_CALL is done again as a new step; a failed
TOOL_CALL is tried again as its skill's preset says (failures.py), and then has
its answer for the model in its output, like one that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memoryos_harness.domain.actions import (
    Action,
    AskModel,
    CallTool,
    Die,
    DoRecall,
    DoRecallSessions,
    Respond,
    Resume,
    StartChildren,
)
from memoryos_harness.domain.agents import Agent, Limits
from memoryos_harness.domain.journal_forms import RECALL_SESSIONS, last_model_step
from memoryos_harness.domain.states import StepKind, StepState
from memoryos_harness.domain.strategies.plan_execute import plan_execute
from memoryos_harness.domain.strategies.react import react
from memoryos_harness.domain.tasks import Counters, Step
from memoryos_harness.domain.window import CONTEXT_EXCEEDED, Window, page_out, times_too_long

LIMIT_STEPS: Final = "limit_steps"
LIMIT_TOKENS: Final = "limit_tokens"
LIMIT_CALLS: Final = "limit_calls"
LIMIT_SECONDS: Final = "limit_seconds"

Strategy = Callable[[Agent, Sequence[Step]], Action]
STRATEGIES: Final[Mapping[str, Strategy]] = {"react": react, "plan_execute": plan_execute}


def next_action(agent: Agent, steps: Sequence[Step], used: Counters, window: Window) -> Action:
    """Give what a worker does next; limits are looked at before anything new is started."""
    for step in steps:
        if step.state is StepState.STARTED:
            return Resume(step)
    action = _after_finished(agent, steps)
    if isinstance(action, AskModel):
        action = _in_window(steps, window, action)
    return _within(agent.limits, used, action)


def _after_finished(agent: Agent, steps: Sequence[Step]) -> Action:
    if last_model_step(steps) is None:
        missing = _missing_recall(agent, steps)
        if missing is not None:
            return missing
    return STRATEGIES[agent.strategy](agent, steps)


def _in_window(steps: Sequence[Step], window: Window, asking: AskModel) -> Action:
    away = page_out(steps, window)
    if away is not None:
        return away
    if times_too_long(steps):
        return Die(CONTEXT_EXCEEDED, "The conversation is too long for the model, and nothing is left to put away.")
    return asking


def _within(limits: Limits, used: Counters, action: Action) -> Action:
    if isinstance(action, Respond | Die):
        return action
    new_steps = len(action.requests) if isinstance(action, StartChildren) else 1
    if used.steps + new_steps > limits.steps:
        return Die(LIMIT_STEPS, f"The task reached its limit of {limits.steps} steps.")
    if isinstance(action, AskModel | StartChildren) and used.tokens >= limits.tokens:
        return Die(LIMIT_TOKENS, f"The task reached its limit of {limits.tokens} tokens.")
    if isinstance(action, CallTool) and used.calls >= limits.calls:
        return Die(LIMIT_CALLS, f"The task reached its limit of {limits.calls} tool calls.")
    return action


def _missing_recall(agent: Agent, steps: Sequence[Step]) -> Action | None:
    done = [s.target for s in steps if s.kind is StepKind.MEMORY_READ and s.state is StepState.DONE]
    recalls, sessions = agent.memory.recall, done.count(RECALL_SESSIONS)
    if len(done) - sessions < len(recalls):
        return DoRecall(recalls[len(done) - sessions])
    return DoRecallSessions() if agent.context.recall_sessions and not sessions else None
