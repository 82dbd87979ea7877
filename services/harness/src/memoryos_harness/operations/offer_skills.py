"""The tools that the model is offered: the agent's skills, as far as policy lets this task think of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from memoryos_core.errors import DependencyUnavailable
from memoryos_models.ports import ToolSpec

from memoryos_harness.domain.children import PARAMETERS, child_skill, may_start
from memoryos_harness.domain.tool_names import ToolNamesCollide, skills_by_tool_name, tool_name
from memoryos_harness.errors import AgentNotFound
from memoryos_harness.operations.task_run import AttemptFailed, TaskDies, TaskRun
from memoryos_harness.ports import Skill

DESCRIPTION_LENGTH_MAX: Final = 200
"""Of a skill in the list that a plan is made from."""


async def offered_skills(run: TaskRun) -> tuple[Skill, ...]:
    """Give the agent's skills that are open to this task; none at all is an error, not an empty run."""
    wanted = frozenset(run.claim.agent.skills)
    children = _offered_children(run)
    if not wanted:
        return _checked(children)
    try:
        listed = await run.interruptible(run.ports.tools.list_skills(await run.ports.tokens.mint(run.claim)))
    except DependencyUnavailable as error:
        raise AttemptFailed("tools_unavailable", "The tool-gateway does not answer.", error.retry_after_s) from error
    offered = tuple(skill for skill in listed if skill.name in wanted)
    if not offered:
        raise TaskDies("no_skills", "None of the agent's skills is open to this task.")
    return _checked((*offered, *children))


def _offered_children(run: TaskRun) -> tuple[Skill, ...]:
    """Give the sub-agents that the task may start now, as skills; a file that is gone is not offered."""
    agent = run.claim.agent
    found: list[Skill] = []
    for name in agent.agents if may_start(agent, run.steps) else ():
        with suppress(AgentNotFound):
            described = (
                run.ports.agents.find(name, run.claim.grant[-1].identity).agent.description
                or f"Lets the agent {name} do a task."
            )
            found.append(Skill(name=child_skill(name), description=described, parameters=PARAMETERS))
    return tuple(found)


def _checked(offered: tuple[Skill, ...]) -> tuple[Skill, ...]:
    try:
        skills_by_tool_name(skill.name for skill in offered)
    except ToolNamesCollide as error:
        raise TaskDies("skill_names_collide", str(error)) from None
    return offered


def tool_specs(skills: Sequence[Skill], names: Collection[str]) -> tuple[ToolSpec, ...]:
    """Give the tools of these names as a model takes them: calls are checked against the names."""
    return tuple(
        ToolSpec(name=tool_name(skill.name), description=skill.description, parameters=skill.parameters)
        for skill in skills
        if skill.name in names
    )


def listed_for_plan(skills: Sequence[Skill]) -> str:
    """Give the skills as text, for a plan in which none is called yet."""
    lines = [f"- {tool_name(skill.name)}: {skill.description[:DESCRIPTION_LENGTH_MAX]}" for skill in skills]
    return "Tools that there are:\n" + "\n".join(lines) if lines else "There are no tools."
