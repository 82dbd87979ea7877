"""Names of skills as models take them.

Chat endpoints take letters, digits, _ and - only, at most 64; a skill is called
`mes.takt_time`. A dot becomes two underscores. Two skills of one name are
refused rather than confused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

TOOL_NAME_MAX: Final = 64
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


class ToolNamesCollide(ValueError):
    """Two skills would have the same name for the model, or one has no possible name."""


def tool_name(skill: str) -> str:
    """Give the name of a skill for the model."""
    return _OTHER.sub("_", skill.replace(".", "__"))


def skills_by_tool_name(skills: Iterable[str]) -> Mapping[str, str]:
    """Give skill names by their name for the model, or raise ToolNamesCollide."""
    names: dict[str, str] = {}
    for skill in skills:
        name = tool_name(skill)
        if len(name) > TOOL_NAME_MAX:
            raise ToolNamesCollide(f"the skill {skill} has a name too long for a model")
        if name in names:
            raise ToolNamesCollide(f"the skills {names[name]} and {skill} have one name for a model")
        names[name] = skill
    return names
