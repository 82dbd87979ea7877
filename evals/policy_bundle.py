"""One bundle for an evaluation: the rules of Memory OS, the policies under tests/cases, a rule file per skill."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

RULES: Final = Path("services/policy/bundle")
CASES: Final = Path("tests/cases/policy")
_SKILL: Final = """package memoryos.skills["{skill}"]

import data.memoryos.cases.{policy}
import data.memoryos.subjects

visible if subjects.known

allow contains finding if some finding in {policy}.allow
"""
_DENY: Final = "\ndeny contains finding if some finding in {policy}.deny\n"
_WITH_DENY: Final = frozenset({"taubench"})


def build(folder: Path, skills: Iterable[tuple[str, str]], documents: Mapping[str, Any]) -> Path:
    """Write the bundle and give its folder.

    `skills` are (name, policy under cases) pairs; `documents` are data by path below memoryos/, put over what is there.
    """
    for source in (RULES, CASES):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    for skill, policy in sorted(set(skills)):
        place = folder / "memoryos" / "skills" / skill
        place.mkdir(parents=True, exist_ok=True)
        text = _SKILL + (_DENY if policy in _WITH_DENY else "")
        (place / f"{skill}.rego").write_text(text.format(skill=skill, policy=policy))
    for name, value in documents.items():
        path = folder / "memoryos" / name / "data.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        before = json.loads(path.read_bytes()) if path.is_file() else {}
        path.write_text(json.dumps({**before, **value}, ensure_ascii=False))
    return folder
