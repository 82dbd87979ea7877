"""`python -m memoryos_toolgateway.skill_tool`: skill files and their locks, without a running gateway.

`mos skill` runs it and prints what it answers: one JSON object on standard
output, exit code 0 when nothing is wrong, 1 when something is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memoryos_core.canonical import parse_json
from memoryos_core.config import load
from memoryos_core.errors import InvalidField
from memoryos_core.sections import ALL_SECTIONS

from memoryos_toolgateway.adapters.skill_advice import remarks
from memoryos_toolgateway.adapters.skill_files import load_skill
from memoryos_toolgateway.adapters.skill_folders import skill_files
from memoryos_toolgateway.adapters.skill_locks import pin_skill, read_lock
from memoryos_toolgateway.app import registry_of, skill_folders
from memoryos_toolgateway.config import ToolGatewaySection
from memoryos_toolgateway.domain.skill_lock import Pin
from memoryos_toolgateway.errors import SkillFileInvalid

ARGUMENTS_BYTES_MAX = 262_144


class _AnyEndpoint(dict[str, str]):
    """Takes every ${NAME}: which port it is does not matter to what a file says."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "localhost:1"


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="memoryos_toolgateway.skill_tool", description=__doc__)
    parser.add_argument("--config", type=Path, help="configuration of the installation")
    parser.add_argument("--dir", type=Path, action="append", default=[], help="folder instead of the configured ones")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lint").add_argument("paths", type=Path, nargs="+")
    commands.add_parser("list")
    trying = commands.add_parser("try")
    trying.add_argument("name")
    trying.add_argument("arguments", help="one JSON object; - reads standard input")
    accepting = commands.add_parser("accept")
    accepting.add_argument("name")
    accepting.add_argument("--open", action="store_true", help="it may do more than read")
    accepting.add_argument("--by", required=True)
    accepting.add_argument("--digest", default="", help="first digits of the digest that was looked at")
    options = parser.parse_args()
    doing = {"lint": _lint, "list": _list, "try": _try, "accept": _accept}[options.command]
    try:
        answer = doing(options)
    except SkillFileInvalid as error:
        answer = {"ok": False, "error": str(error), "reason": "SKILL_FILE_INVALID"}
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    sys.exit(0 if answer["ok"] else 1)


def _section(options: argparse.Namespace) -> ToolGatewaySection:
    if options.dir:
        return _of_folders(options.dir)
    section = load([ToolGatewaySection], file=options.config, environ={}, known=ALL_SECTIONS)[ToolGatewaySection]
    return section.model_copy(update={"endpoints": _AnyEndpoint()})


def _of_folders(folders: Sequence[Path]) -> ToolGatewaySection:
    section = ToolGatewaySection(skill_dirs=tuple(folders), builtin_skills=False)
    return section.model_copy(update={"endpoints": _AnyEndpoint()})


def _lint(options: argparse.Namespace) -> dict[str, Any]:
    found = [asdict(r) for path in options.paths for file in _files(path) for r in remarks(file, _AnyEndpoint())]
    for folder in {path for path in options.paths if path.is_dir()}:
        found += _lint_folder(folder)
    return {"ok": all(remark["level"] == "advice" for remark in found), "remarks": found}


def _lint_folder(folder: Path) -> Iterator[dict[str, Any]]:
    """Give what only all files of a folder together show: names, and the lock."""
    try:
        registry = registry_of(_of_folders([folder]))
    except SkillFileInvalid as error:
        if error.pointer == "/name" or error.file.endswith(".lock"):  # other errors are told by file
            yield _remark(error.file, error.pointer, "error", "skill_folder", error.text)
        return
    for each in registry.found():
        if each.quarantined.startswith(("changed", "/name")):
            hint = f"look at it, then `mos skill accept {each.skill.name}`"
            yield _remark(each.file, "/name", "quarantine", "skill_lock", f"{each.quarantined}: {hint}")
    names = {each.skill.name for each in registry.found()}
    for name in sorted(read_lock(folder).keys() - names):
        yield _remark(
            str(folder / "skills.lock"), f"/skills/{name}", "advice", "skill_lock", "pins a skill that is gone"
        )


def _remark(file: str, pointer: str, level: str, rule: str, text: str) -> dict[str, Any]:
    return {"file": file, "line": 1, "pointer": pointer or "/", "level": level, "rule": rule, "text": text}


def _files(path: Path) -> Sequence[Path]:
    return skill_files(path) if path.is_dir() else [path]


def _list(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "ok": True,
        "skills": [
            {
                "name": each.skill.name,
                "version": each.skill.version,
                "effect_class": each.skill.effect_class.value,
                "risk": each.skill.risk,
                "opened": each.skill.opened,
                "pinned": each.pinned,
                "quarantined": each.quarantined,
                "digest": each.skill.definition_digest,
                "description": each.skill.description,
                "file": each.file,
            }
            for each in registry_of(_section(options)).found()
        ],
    }


def _try(options: argparse.Namespace) -> dict[str, Any]:
    """Check arguments as the gateway does before it asks policy."""
    found = next((s for s in registry_of(_section(options)).found() if s.skill.name == options.name), None)
    if found is None:
        return {"ok": False, "error": f"there is no skill {options.name!r}", "reason": "SKILL_NOT_FOUND"}
    raw = sys.stdin.read() if options.arguments == "-" else options.arguments
    try:
        arguments = parse_json(raw, max_bytes=ARGUMENTS_BYTES_MAX, field="arguments")
    except InvalidField as error:
        return {"ok": False, "error": str(error), "reason": "ARGUMENTS_INVALID"}
    violations = [asdict(v) for v in found.skill.schema.violations(arguments)]
    answer = {"ok": not violations, "violations": violations, "quarantined": found.quarantined}
    return answer | {"skill": found.skill.name, "digest": found.skill.definition_digest, "opened": found.skill.opened}


def _accept(options: argparse.Namespace) -> dict[str, Any]:
    """Pin a definition as it is now, on the word of a person."""
    for folder in skill_folders(_section(options)):
        for file in skill_files(folder):
            skill = load_skill(file, _AnyEndpoint())
            if skill.name != options.name:
                continue
            if not skill.definition_digest.startswith(options.digest):
                return {"ok": False, "error": "the file is not what was looked at", "reason": "DIGEST_MISMATCH"}
            said = [asdict(r) for r in remarks(file, _AnyEndpoint()) if r.level == "quarantine"]
            time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            pin = Pin(digest=skill.definition_digest, opened=options.open, accepted_by=options.by, accept_time=time)
            pin_skill(folder, skill.name, pin)
            return {"ok": True, "skill": skill.name, "file": str(file), "remarks": said, **_pinned(pin)}
    return {"ok": False, "error": f"there is no skill {options.name!r}", "reason": "SKILL_NOT_FOUND"}


def _pinned(pin: Pin) -> Mapping[str, Any]:
    return {"digest": pin.digest, "opened": pin.opened, "accepted_by": pin.accepted_by}


if __name__ == "__main__":
    main()
