"""The registry of the configured folders: their skill files, held against what their skills.lock says.

A file that cannot be read stops the start. A definition that can be read but
not trusted (another one than was accepted, or one that the poison lint objects
to and nobody accepted) is quarantined instead, so that one changed file takes
one skill away and not the gateway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from memoryos_toolgateway.adapters.skill_documents import SUFFIXES, read_document
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_locks import read_lock
from memoryos_toolgateway.domain.names import skeleton
from memoryos_toolgateway.domain.poison import findings
from memoryos_toolgateway.domain.skill import Skill
from memoryos_toolgateway.domain.skill_lock import LOCK_FILE, Pin
from memoryos_toolgateway.errors import SkillFileInvalid
from memoryos_toolgateway.registry import FoundSkill, SkillRegistry

SKILLS_MAX: Final = 2_000


def load_registry(folders: Sequence[Path], endpoints: Mapping[str, str]) -> SkillRegistry:
    """Give the registry of every .yaml, .yml and .json file in `folders`, or raise SkillFileInvalid."""
    found: list[FoundSkill] = []
    for folder in folders:
        pins = read_lock(folder)
        for file in skill_files(folder):
            found.append(_held_against(file, load_skill(file, endpoints), pins))
            if len(found) > SKILLS_MAX:
                raise SkillFileInvalid(str(file), "", f"is skill {SKILLS_MAX + 1}; {SKILLS_MAX} are the limit")
    return SkillRegistry(_told_apart(found))


def skill_files(folder: Path) -> list[Path]:
    """Give the skill files of a folder, by name, or raise SkillFileInvalid where there is no such folder."""
    if not folder.is_dir():
        raise SkillFileInvalid(str(folder), "", "is no folder")
    files = sorted(folder.iterdir())
    return [file for file in files if file.suffix in SUFFIXES and not file.name.startswith(".") and file.is_file()]


def _held_against(file: Path, skill: Skill, pins: Mapping[str, Pin]) -> FoundSkill:
    pin = pins.get(skill.name)
    if pin is None:
        objections = findings(read_document(file))
        reason = "; ".join(f"{o.pointer}: {o.rule}: {o.text}" for o in objections[:3])
        return FoundSkill(str(file), skill, pinned=False, quarantined=reason)
    if pin.digest != skill.definition_digest:
        reason = f"changed: {LOCK_FILE} has {pin.digest[:12]}…, accepted by {pin.accepted_by}; the file is another one"
        return FoundSkill(str(file), skill, pinned=True, quarantined=reason)
    return FoundSkill(str(file), replace(skill, opened=pin.opened), pinned=True)


def _told_apart(found: Sequence[FoundSkill]) -> list[FoundSkill]:
    """Quarantine what nobody accepted and whose name can be taken for another's at a glance."""
    alike: dict[str, list[FoundSkill]] = defaultdict(list)
    for each in found:
        alike[skeleton(each.skill.name)].append(each)
    told: list[FoundSkill] = []
    for each in found:
        others = [other.skill.name for other in alike[skeleton(each.skill.name)] if other is not each]
        if others and not each.pinned and not each.quarantined:
            told.append(replace(each, quarantined=f"/name: look_alike: the name looks like {others[0]}"))
        else:
            told.append(each)
    return told
