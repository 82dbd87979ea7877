"""The skills that exist while this process runs: whitelisted, pinned by digest, nothing added later."""

from __future__ import annotations

from collections.abc import Iterable

from memoryos_toolgateway.domain.names import collision_key
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.errors import SkillFileInvalid


class SkillRegistry:
    """Finds skills by their exact name."""

    def __init__(self, skills: Iterable[tuple[str, Skill]]) -> None:
        """Take (file, skill) pairs; raises SkillFileInvalid, naming both files, when two names can be mixed up."""
        files: dict[str, tuple[str, Skill]] = {}
        for file, skill in skills:
            key = collision_key(skill.name)
            if key in files:
                other_file, other = files[key]
                raise SkillFileInvalid(
                    file, "/name", f"{skill.name!r} cannot be told from {other.name!r} in {other_file}"
                )
            files[key] = (file, skill)
        self._skills = {skill.name: skill for _, skill in files.values()}
        self._sorted = tuple(sorted(self._skills.values(), key=lambda skill: skill.name))

    def get(self, name: str) -> Skill | None:
        """Give the skill of exactly this name."""
        return self._skills.get(name)

    def all(self) -> tuple[Skill, ...]:
        """Give every skill, by name."""
        return self._sorted
