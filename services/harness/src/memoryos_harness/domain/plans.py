"""Plans and verdicts of plan_execute, as the model writes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memoryos_harness.domain.actions import Purpose
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.answers import Reading, read_answer
from memoryos_harness.domain.tool_names import tool_name

PLAN_STEPS_MAX: Final = 20
_TEXT: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 2000}
PLAN_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "maxItems": PLAN_STEPS_MAX,
            "items": {
                "type": "object",
                "properties": {"do": _TEXT, "expect": _TEXT, "skill": {"type": "string", "maxLength": 128}},
                "required": ["do", "expect"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["steps"],
    "additionalProperties": False,
}
VERDICT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"met": {"type": "boolean"}, "why": {"type": "string", "maxLength": 2000}},
    "required": ["met", "why"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan: what is done, and what is expected of it."""

    do: str
    expect: str
    skill: str = ""
    """Tool that the plan names for it, as a hint."""


def plan_of(structured: Any) -> tuple[PlanStep, ...]:
    """Give the plan of a reply that was checked."""
    return tuple(PlanStep(step["do"], step["expect"], step.get("skill", "")) for step in structured["steps"])


def reply_schema(agent: Agent, purpose: Purpose) -> Mapping[str, Any] | None:
    """Give the schema of a reply without tool calls; None when it is text."""
    match purpose:
        case Purpose.PLAN:
            return PLAN_SCHEMA
        case Purpose.REFLECT:
            return VERDICT_SCHEMA
        case Purpose.ACT if agent.strategy == "plan_execute":
            return None
    return agent.output_schema


def read_reply(agent: Agent, purpose: Purpose, text: str, skills: Collection[str]) -> Reading | None:
    """Give a reply read as the JSON that was asked for; None when it is text. `skills` are those that there are."""
    schema = reply_schema(agent, purpose)
    if schema is None:
        return None
    reading = read_answer(schema, text)
    if purpose is not Purpose.PLAN or reading.problem:
        return reading
    return _checked_plan(reading, skills)


def _checked_plan(reading: Reading, skills: Collection[str]) -> Reading:
    names = {*skills, *(tool_name(skill) for skill in skills)}
    for number, step in enumerate(plan_of(reading.value)):
        if step.skill and step.skill not in names:
            return Reading(None, f"/steps/{number}/skill: there is no tool of this name")
    return reading


def numbered(plan: Sequence[PlanStep]) -> str:
    """Give a plan as text, one line a step."""
    return "\n".join(f"{number}. {step.do} (expected: {step.expect})" for number, step in enumerate(plan, 1))
