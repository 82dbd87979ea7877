"""The skills that exist while this process runs: whitelisted, pinned by digest, nothing added later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memoryos_toolgateway.domain.names import collision_key
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import SkillFileInvalid


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill as it was found, and why it is out of reach, if it is."""

    file: str
    skill: Skill
    pinned: bool = False
    """skills.lock has an entry of this name."""
    quarantined: str = ""
    """Why nobody may list or call it until a person accepts it; empty: nothing keeps it away."""


class SkillRegistry:
    """Finds skills by their exact name. What is quarantined does not exist for callers."""

    def __init__(self, found: Iterable[FoundSkill]) -> None:
        """Take skills as found; raises SkillFileInvalid, naming both files, when two names can be mixed up."""
        by_key: dict[str, FoundSkill] = {}
        for each in found:
            other = by_key.setdefault(collision_key(each.skill.name), each)
            if other is not each:
                raise SkillFileInvalid(
                    each.file, "/name", f"{each.skill.name!r} cannot be told from {other.skill.name!r} in {other.file}"
                )
        everything = sorted(by_key.values(), key=lambda each: each.skill.name)
        self._found = tuple(everything)
        self._sorted = tuple(each.skill for each in everything if not each.quarantined)
        self._skills = {skill.name: skill for skill in self._sorted}

    def get(self, name: str) -> Skill | None:
        """Give the skill of exactly this name."""
        return self._skills.get(name)

    def all(self) -> tuple[Skill, ...]:
        """Give every skill that is not quarantined, by name."""
        return self._sorted

    def found(self) -> tuple[FoundSkill, ...]:
        """Give every skill, the quarantined ones too, by name; for operators, not for callers."""
        return self._found
