"""Cases of agents: what is asked, what the model says where it is scripted, and what must come of it.

A file holds a list of cases. A scripted model gives the replies of `model` in order; without them a case needs
`--model`. `{…}` in any text stands for something that the business of the deployment drew, e.g. `{ticket.production}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

DIMENSIONS: Final = ("completion", "memory", "privilege")
_PLACE: Final = re.compile(r"\{([a-z]+\.[\w-]+)\}")


class CaseInvalid(Exception):
    """A file of cases is wrong; the message names file, case and field."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Person(_Strict):
    """Who asks."""

    user: str
    roles: tuple[str, ...] = ("user",)
    groups: tuple[str, ...] = ()
    clearance: int = 0
    tenant: str = "acme"


class Known(_Strict):
    """An item of memory that is there before anything is asked."""

    by: Person
    content: str
    path: str = Field(default="", description="Below /tenants/{tenant}/memory/; default: episodic/{user}.")
    readers: tuple[str, ...] = ()
    sensitivity: int = 0
    valid_from: str = ""
    untrusted: bool = False


class Said(_Strict):
    """An earlier session of somebody, one message after the other, the person's first."""

    by: Person
    messages: tuple[str, ...]


class Reply(_Strict):
    """What the scripted model says: text, calls, or both. Text may hold `{recalled}` and `{results}`."""

    say: str = ""
    calls: tuple[Mapping[str, Mapping[str, Any] | str], ...] = ()
    """Each a mapping of one tool, named as the skill, to its arguments."""


class Call(_Strict):
    """A call that must be in the journal, in this order."""

    skill: str
    outcome: str = "SUCCEEDED"
    arguments: Mapping[str, Any] | None = None


class Expected(_Strict):
    """What must come of it. What is not said is not looked at, effects aside: those not named must not happen."""

    state: str = "succeeded"
    calls: tuple[Call, ...] | None = None
    answer: tuple[str, ...] = ()
    """Texts that the answer holds."""
    not_answer: tuple[str, ...] = ()
    recalled: tuple[str, ...] = ()
    """Texts, each of which stands in an item that was recalled."""
    first: str = ""
    """Text that stands in the item recalled first."""
    effects: Mapping[str, int] = Field(default_factory=dict)
    """By name: ticket.delete, refund.create, mail, group."""
    cites: bool = False
    """The answer names an item that was recalled."""
    error_code: str = ""


class Case(_Strict):
    """One thing to try."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{2,63}$")
    dimension: Literal["completion", "memory", "privilege"]
    language: Literal["en", "zh"]
    person: Person
    agent: str = "assistant"
    memory: tuple[Known, ...] = ()
    sessions: tuple[Said, ...] = ()
    ask: str
    model: tuple[Reply, ...] = ()
    children: Mapping[str, tuple[Reply, ...]] = Field(default_factory=dict)
    """Replies of the model to sub-agents, by what those are asked."""
    review: Literal["", "approve", "deny"] = ""
    """What the reviewer says of calls that wait."""
    never: tuple[str, ...] = ()
    """Texts that the model is never shown, and that stand in no answer."""
    expect: Expected = Expected()


def load(folder: Path, places: Mapping[str, str]) -> list[Case]:
    """Give the cases of all files of a folder; names and questions are there once."""
    found: list[Case] = []
    for file in sorted(folder.glob("*.yaml")):
        for number, document in enumerate(yaml.safe_load(file.read_text(encoding="utf-8")) or []):
            try:
                found.append(Case.model_validate(_filled(document, places)))
            except (ValidationError, KeyError) as error:
                raise CaseInvalid(f"{file.name}, case {number + 1}: {error}") from None
    for texts in ([case.name for case in found], [text for case in found for text in (case.ask, *case.children)]):
        twice = {text for text in texts if texts.count(text) > 1}
        if twice:
            raise CaseInvalid(f"there more than once: {', '.join(sorted(twice))}")
    return found


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACE.sub(lambda match: places[match[1]], value)
    if isinstance(value, list):
        return [_filled(inner, places) for inner in value]
    if isinstance(value, dict):
        return {_filled(key, places): _filled(inner, places) for key, inner in value.items()}
    return value
