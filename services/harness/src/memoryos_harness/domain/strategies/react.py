"""One step after the other: the model asks for calls, is told what came of them, and answers when it asks for none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoryos_harness.domain.actions import Action, AskModel, Die
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.answers import MISTAKES_MAX, asked_to_answer, final_answer
from memoryos_harness.domain.journal_forms import last_model_step, tool_requests
from memoryos_harness.domain.repeats import SAME_ANSWERS, only_repeats, refusals_to_answer
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
    if not only_repeats(steps, last):
        return AskModel()
    if refusals_to_answer(steps, last) > MISTAKES_MAX:
        return Die(SAME_ANSWERS, "The model went on asking for tools when it had only to answer.")
    return asked_to_answer(agent, _REPEATED)
