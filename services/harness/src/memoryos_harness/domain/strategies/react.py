"""One step after the other: the model asks for calls, is told what came of them, and answers when it asks for none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_harness.domain.actions import Action, AskModel
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.answers import asked_to_answer, final_answer
from memoryos_harness.domain.journal_forms import last_model_step, tool_requests
from memoryos_harness.domain.repeats import only_repeats
from memoryos_harness.domain.tasks import Step
from memoryos_harness.domain.turns import next_in_turn

_REPEATED: Final = "Everything that you asked for last you had asked for before, and you have its answer."


def react(agent: Agent, steps: Sequence[Step]) -> Action:
    """Give what comes after recall, when no step is under way."""
    last = last_model_step(steps)
    if last is None:
        return AskModel()
    if not tool_requests(last):
        return final_answer(agent, last)
    action = next_in_turn(agent, steps, last)
    if action is not None:
        return action
    return asked_to_answer(agent, _REPEATED) if only_repeats(steps, last) else AskModel()
