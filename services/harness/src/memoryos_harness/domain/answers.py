"""Replies that are JSON of a schema: final answers, plans, verdicts. Checked, repaired a few times, canonical."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs
from memoryos_core.canonical import JsonValue, canonical_json, parse_json
from memoryos_core.errors import InvalidField

from memoryos_harness.domain.actions import Action, AskModel, Purpose, Respond
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.journal_forms import model_text, problem_of, replies, structured_of
from memoryos_harness.domain.tasks import Step

ANSWER_BYTES_MAX: Final = 262_144
"""Longest JSON that a model may answer."""
MISTAKES_MAX: Final = 2
"""Times that the model is asked again for JSON, told what was wrong with it; then the attempt fails."""
PROBLEM_LENGTH_MAX: Final = 300
_FENCED: Final = re.compile(r"\A\s*```[a-zA-Z]*[ \t]*\n(.*)\n\s*```\s*\Z", re.DOTALL)


class SchemaUnusable(ValueError):
    """The schema is no JSON Schema 2020-12, refers to another document, or has a pattern that needs backtracking."""


class AnswerSchema:
    """A schema, ready to check answers: formats are asserted, patterns run in linear time, nothing is fetched."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Take a schema, or raise SchemaUnusable."""
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema), validate_formats=True, offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise SchemaUnusable(str(error).partition("\n")[0]) from None

    def problem(self, value: JsonValue) -> str:
        """Say where and how a value breaks the schema, "" when it does not."""
        error = next(iter(self._validator.iter_errors(value)), None)
        if error is None:
            return ""
        place = "/" + "/".join(str(part) for part in error.instance_path) if error.instance_path else "the whole of it"
        rule = str(error.schema_path[-1]) if error.schema_path else "false"
        return f"{place}: {rule}: {error.message}"[:PROBLEM_LENGTH_MAX]


@functools.lru_cache(maxsize=256)
def _compiled(canonical: bytes) -> AnswerSchema:
    return AnswerSchema(parse_json(canonical, max_bytes=len(canonical)))  # type: ignore[arg-type]


def answer_schema(schema: Mapping[str, Any]) -> AnswerSchema:
    """Give the compiled schema, or raise SchemaUnusable."""
    return _compiled(canonical_json(dict(schema)))


@dataclass(frozen=True, slots=True)
class Reading:
    """A reply read as JSON of a schema: `value`, or the `problem` with it."""

    value: JsonValue
    problem: str = ""


def read_answer(schema: Mapping[str, Any], text: str) -> Reading:
    """Give what a reply says; it may stand between the fences that models put around code."""
    fenced = _FENCED.match(text)
    try:
        value = parse_json(fenced[1] if fenced else text, max_bytes=ANSWER_BYTES_MAX)
    except InvalidField as error:
        return Reading(None, f"the whole of it: it is not one JSON value: {error.message}"[:PROBLEM_LENGTH_MAX])
    problem = answer_schema(schema).problem(value)
    return Reading(None, problem) if problem else Reading(value)


def mistakes(steps: Sequence[Step]) -> int:
    """Give how many replies in a row, up to the newest, were not the JSON that was asked for."""
    count = 0
    for reply in reversed(replies(steps)):
        if not problem_of(reply):
            break
        count += 1
    return count


def form(schema: Mapping[str, Any]) -> str:
    """Say to a model what its reply has to be."""
    return f"one JSON value of this JSON Schema, and nothing else: {canonical_json(dict(schema)).decode()}"


def asked_to_answer(agent: Agent, why: str) -> AskModel:
    """Give the asking for the final answer, without tools."""
    wanted = f" Reply with {form(agent.output_schema)}" if agent.output_schema is not None else ""
    return AskModel(Purpose.ANSWER, f"Answer the question now, from what was found. {why}{wanted}")


def asked_again(purpose: Purpose, problem: str, schema: Mapping[str, Any]) -> AskModel:
    """Give the asking that tells the model what is wrong with its reply."""
    return AskModel(purpose, f"Your reply is not of the agreed form. At {problem}. Reply again with {form(schema)}")


def final_answer(agent: Agent, reply: Step) -> Action:
    """Give what becomes of a reply that is meant as the final answer."""
    if agent.output_schema is None:
        return Respond(model_text(reply))
    problem = problem_of(reply)
    if problem:
        return asked_again(Purpose.ANSWER, problem, agent.output_schema)
    return Respond(canonical_json(structured_of(reply)).decode())
