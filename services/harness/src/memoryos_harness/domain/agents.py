"""Agent files: what an agent is told, may use and may use up.

The JSON Schema of a file is published in services/harness/schemas; it is made
from these classes. The version of an agent is the SHA-256 of its canonical
definition, pinned by every task.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from memoryos_core.canonical import JsonValue, canonical_json
from memoryos_core.paths import MemoryPath, PathInvalid
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

NAME_PATTERN: Final = r"^[a-z][a-z0-9_.-]{0,63}$"
DEFAULT_MODEL: Final = "default"
PATHS_MAX: Final = 16
SKILLS_MAX: Final = 64
_TEMPLATE: Final = re.compile(r"\{([^{}]*)\}")
_TEMPLATE_NAMES: Final = frozenset({"tenant", "user"})

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=64)]
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$", max_length=128)]
PathTemplate = Annotated[str, Field(min_length=1, max_length=1024)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Recall(_Strict):
    """What is recalled for the model before it is first asked."""

    path: PathTemplate = Field(description="Place to recall from; below one of memory.read.")
    top_k: int = Field(default=8, ge=1, le=50, description="Hits at most.")
    min_score: float = Field(default=0.0, ge=0, le=1, description="Hits below this score are left out.")


class Memory(_Strict):
    """The places that the agent is bound to: the ceiling of its reads and writes, never a grant."""

    read: tuple[PathTemplate, ...] = Field(default=(), max_length=PATHS_MAX, description="Ceiling of reads.")
    write: tuple[PathTemplate, ...] = Field(default=(), max_length=PATHS_MAX, description="Ceiling of writes.")
    recall: tuple[Recall, ...] = Field(default=(), max_length=PATHS_MAX, description="What is recalled at the start.")


class Limits(_Strict):
    """Beyond each of these the task is DEAD with the limit's name."""

    steps: int = Field(default=40, ge=1, le=500, description="Journaled steps.")
    tokens: int = Field(default=200_000, ge=1, le=10_000_000, description="Tokens in and out of the model.")
    seconds: int = Field(default=900, ge=1, le=86_400, description="Time from submission, waits for reviews aside.")
    calls: int = Field(default=20, ge=0, le=500, description="Tool calls.")
    attempts: int = Field(
        default=8,
        ge=1,
        le=20,
        description="Attempts in a row that finish no step; with the usual waits eight outlast two minutes of outage.",
    )
    depth: int = Field(default=2, ge=0, le=8, description="Levels of sub-agents below a submitted task.")
    fan_out: int = Field(default=8, ge=1, le=64, description="Sub-agents that the task starts in all.")


class Context(_Strict):
    """What a model is shown beside the question."""

    turns: int = Field(default=20, ge=0, le=100, description="Messages before the question, shown word for word.")
    recall_sessions: bool = Field(
        default=False, description="Also recall what was said in the user's own earlier sessions."
    )
    tokens: int = Field(
        default=24_000,
        ge=1_000,
        le=1_000_000,
        description="The working window: when it is full, the oldest steps go to working memory.",
    )


class OnFailure(_Strict):
    """What is done, in this order, when a skill's call fails for certain; each try is a step."""

    retries: int = Field(default=2, ge=0, le=10, description="Times that the same call is made again.")
    backoff_s: float = Field(default=1.0, gt=0, le=60, description="Wait before the first of them; doubles.")
    other_skills: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] = Field(
        default=(), max_length=4, description="Skills that take the same arguments, asked in order."
    )
    then: Literal["tell", "hand_off", "fail"] = Field(
        default="tell",
        description="tell: the model is told, and may try other arguments; hand_off: the task rests until a person "
        "takes over; fail: the task is dead.",
    )


class Agent(_Strict):
    """One agent, as its file declares it. Paths may hold {tenant} and {user}."""

    name: Name = Field(description="Name of the agent; the file is called so too.")
    description: str = Field(default="", max_length=1024, description="For people.")
    model: ModelName = Field(
        default=DEFAULT_MODEL, description="Model at the chat endpoint; default: the one that the configuration names."
    )
    instructions: str = Field(min_length=1, max_length=32_768, description="What the model is told first.")
    fallback_models: tuple[ModelName, ...] = Field(
        default=(), max_length=4, description="Models asked in order when the one before them does not answer."
    )
    strategy: Literal["react", "plan_execute"] = Field(
        default="react",
        description="react: one step after the other; plan_execute: a plan with expected results, compared and "
        "revised as results come.",
    )
    revisions: int = Field(default=3, ge=0, le=10, description="Times that a plan is revised (plan_execute).")
    skills: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] = Field(
        default=(), max_length=SKILLS_MAX, description="Skills that it may be offered; policy may leave fewer."
    )
    memory: Memory = Field(default=Memory(), description="Places in memory.")
    limits: Limits = Field(default=Limits(), description="What it may use up.")
    agents: tuple[Name, ...] = Field(default=(), max_length=16, description="Sub-agents that it may start.")
    context: Context = Field(default=Context(), description="What the model is shown beside the question.")
    on_failure: Mapping[str, OnFailure] = Field(
        default_factory=lambda: {"*": OnFailure()},
        description="By skill, * for all others: what is done when a call fails.",
    )
    same_failures: int = Field(
        default=3, ge=1, le=10, description="Equal failures in a row after which the task stops asking for that."
    )
    same_answers: int = Field(
        default=3, ge=1, le=100, description="Equal answers in a row after which the task stops asking for that."
    )
    may_repeat: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] = Field(
        default=(),
        max_length=SKILLS_MAX,
        description="Skills whose call is made again with the same arguments although it was done in this task.",
    )
    output_schema: Mapping[str, Any] | None = Field(
        default=None, description="JSON Schema (2020-12) of the final answer; null: the answer is text."
    )

    @field_validator("skills")
    @classmethod
    def _skills_once(cls, skills: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(skills)) != len(skills):
            raise ValueError("a skill is named twice")
        return skills

    @model_validator(mode="after")
    def _paths_are_well_formed(self) -> Agent:
        sample = {"tenant": "t", "user": "u"}
        for template in (*self.memory.read, *self.memory.write, *(r.path for r in self.memory.recall)):
            _check_template(template)
        try:
            readable = [_expand(path, sample) for path in self.memory.read]
            places = [_expand(recall.path, sample) for recall in self.memory.recall]
            _ = [_expand(path, sample) for path in self.memory.write]
        except PathInvalid as error:
            raise ValueError(error.message) from None
        for recall, place in zip(self.memory.recall, places, strict=True):
            if not any(allowed.contains(place) for allowed in readable):
                raise ValueError(f"recall from {recall.path} is not below a path of memory.read")
        return self

    def definition(self) -> dict[str, Any]:
        """Give the whole definition as JSON, defaults included."""
        return self.model_dump(mode="json")

    @property
    def version(self) -> str:
        """SHA-256 (hex) of the canonical definition."""
        return hashlib.sha256(canonical_json(self.definition())).hexdigest()

    @classmethod
    def of(cls, definition: JsonValue) -> Agent:
        """Give the agent of a definition kept earlier."""
        return cls.model_validate(tuples(definition))


def tuples(value: Any) -> Any:
    """Give `value` with tuples for lists: strict pydantic takes no list for a tuple."""
    if isinstance(value, dict):
        return {key: tuples(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return tuple(tuples(inner) for inner in value)
    return value


def _check_template(template: str) -> None:
    for name in _TEMPLATE.findall(template):
        if name not in _TEMPLATE_NAMES:
            raise ValueError(f"{template}: only {{tenant}} and {{user}} can stand in a path")
    if "{" in _TEMPLATE.sub("", template) or "}" in _TEMPLATE.sub("", template):
        raise ValueError(f"{template}: a brace is left open")
    if not template.startswith("/tenants/{tenant}/"):
        raise ValueError(f"{template}: an agent's path starts with /tenants/{{tenant}}/")


def _expand(template: str, names: Mapping[str, str]) -> MemoryPath:
    for name, value in names.items():
        if "/" in value:
            raise PathInvalid(f"a {name} name with a slash cannot stand in a path")
    return MemoryPath.parse(_TEMPLATE.sub(lambda match: names[match[1]], template), field=template)


def expand_paths(templates: Iterable[str], *, tenant: str, user: str) -> tuple[MemoryPath, ...]:
    """Give the places that templates name for one user, or raise PathInvalid.

    A user or tenant name never adds a segment: one with a slash is refused,
    and the result goes through the path grammar.
    """
    return tuple(_expand(template, {"tenant": tenant, "user": user}) for template in templates)
