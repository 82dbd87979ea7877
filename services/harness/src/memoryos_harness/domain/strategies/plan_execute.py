"""A plan with expected results; each step is done, compared with what was expected, and the rest is planned anew
where it was not met.

The journal alone says how far that is: plans, results and verdicts are replies
of the model, each with its purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memoryos_harness.domain.actions import Action, AskModel, Purpose
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.answers import asked_again, asked_to_answer, final_answer, form
from memoryos_harness.domain.journal_forms import (
    problem_of,
    purpose_of,
    replies,
    said_to_model,
    structured_of,
    tool_requests,
)
from memoryos_harness.domain.plans import PLAN_SCHEMA, VERDICT_SCHEMA, PlanStep, numbered, plan_of
from memoryos_harness.domain.repeats import only_repeats
from memoryos_harness.domain.tasks import Step
from memoryos_harness.domain.turns import next_in_turn
from memoryos_harness.domain.window import is_away, paged_out

_PLAN: Final = (
    "First make a plan for the question: few steps, each with what is done and what result is expected. Call no tool "
    "yet. Reply with {form}"
)
_REVISE: Final = (
    "The expected result was not met: {why}\nMake a new plan for what is left, in the light of what the tools said "
    "(their status and code say why a call failed: other arguments, another tool, or doing without it). What is done "
    "stays done; leave the steps empty when nothing sensible is left. Reply with {form}"
)
_ACT: Final = (
    "Step {number} of {count}: {do}\nExpected result: {expect}{hint}\nDo this step now, and this one only; then say in "
    "words what came of it."
)
_REFLECT: Final = (
    "Compare step {number} with what came of it.\nDone: {do}\nExpected result: {expect}\nIs it met, by what the tools "
    "said and not by what was hoped for? Reply with {form}"
)
_MET: Final = "Every step of the plan is done."
_UNMET: Final = "Not every expected result was met; say what could not be done, and why."


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task is."""

    asked_for: Purpose = Purpose.PLAN
    """What the model is asked for next, or again."""
    plan: tuple[PlanStep, ...] = ()
    at: int = 0
    """Index of the step that is under way."""
    revisions: int = 0
    why: str = ""
    """Why the last step was not met; "" when it was."""
    problem: str = ""
    """What is wrong with the newest reply."""
    told_at: int = 0
    """Sequence of the reply that answers to being told of the step that is under way; 0: it is not told yet."""
    answered: bool = False


def plan_execute(agent: Agent, steps: Sequence[Step]) -> Action:
    """Give what comes after recall, when no step is under way."""
    done = replies(steps)
    progress = _progress(agent, steps, done)
    if done and tool_requests(done[-1]):
        action = next_in_turn(agent, steps, done[-1])
        if action is not None:
            return action
    if progress.answered:
        return final_answer(agent, done[-1])
    match progress.asked_for:
        case Purpose.PLAN:
            return _plan(progress)
        case Purpose.ACT:
            return _act(progress, told=bool(progress.told_at) and not is_away(progress.told_at, paged_out(steps)))
        case Purpose.REFLECT:
            return _reflect(progress)
    return asked_to_answer(agent, _UNMET if progress.why else _MET)


def _progress(agent: Agent, steps: Sequence[Step], done: Sequence[Step]) -> Progress:
    """Give how far a task is, from the model's replies in order."""
    progress = Progress()
    for reply in done:
        calls = bool(tool_requests(reply)) and not only_repeats(steps, reply)
        progress = _after(agent, progress, reply, calls=calls)
    return progress


def _after(agent: Agent, progress: Progress, reply: Step, *, calls: bool) -> Progress:
    """Give the progress after a reply; `calls`: it asks for something that it does not have the answer of."""
    purpose, problem = purpose_of(reply), problem_of(reply)
    if purpose is Purpose.ANSWER:
        return replace(progress, asked_for=purpose, answered=True, problem=problem)
    if problem:
        return replace(progress, asked_for=purpose, problem=problem)
    progress = replace(progress, problem="")
    match purpose:
        case Purpose.PLAN:
            plan = plan_of(structured_of(reply))
            revisions = progress.revisions + (1 if progress.why else 0)
            wanted = Purpose.ACT if plan else Purpose.ANSWER
            return replace(progress, asked_for=wanted, plan=plan, at=0, revisions=revisions, told_at=0)
        case Purpose.REFLECT:
            return _judged(agent, progress, structured_of(reply)["met"], structured_of(reply)["why"])
    told_at = reply.sequence if said_to_model(reply) else progress.told_at
    return replace(progress, asked_for=Purpose.ACT if calls else Purpose.REFLECT, told_at=told_at)


def _judged(agent: Agent, progress: Progress, met: bool, why: str) -> Progress:
    if met:
        at = progress.at + 1
        wanted = Purpose.ACT if at < len(progress.plan) else Purpose.ANSWER
        return replace(progress, asked_for=wanted, at=at, told_at=0, why="")
    wanted = Purpose.PLAN if progress.revisions < agent.revisions else Purpose.ANSWER
    return replace(progress, asked_for=wanted, told_at=0, why=why or "no reason was given")


def _plan(progress: Progress) -> AskModel:
    if progress.problem:
        return asked_again(Purpose.PLAN, progress.problem, PLAN_SCHEMA)
    if progress.why:
        return AskModel(Purpose.PLAN, _REVISE.format(why=progress.why, form=form(PLAN_SCHEMA)))
    return AskModel(Purpose.PLAN, _PLAN.format(form=form(PLAN_SCHEMA)))


def _act(progress: Progress, *, told: bool) -> AskModel:
    if told:
        return AskModel()
    step = progress.plan[progress.at]
    hint = f"\nTool meant for it: {step.skill}" if step.skill else ""
    said = _ACT.format(number=progress.at + 1, count=len(progress.plan), do=step.do, expect=step.expect, hint=hint)
    return AskModel(Purpose.ACT, f"The plan:\n{numbered(progress.plan)}\n\n{said}")


def _reflect(progress: Progress) -> AskModel:
    if progress.problem:
        return asked_again(Purpose.REFLECT, progress.problem, VERDICT_SCHEMA)
    step = progress.plan[progress.at]
    said = _REFLECT.format(number=progress.at + 1, do=step.do, expect=step.expect, form=form(VERDICT_SCHEMA))
    return AskModel(Purpose.REFLECT, said)
