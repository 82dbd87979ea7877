"""`python -m memoryos_harness.agent_tool`: files of agents, for the command line. Prints one JSON value.

lint DIR [--skills DIR]   what is wrong; exit code 1 when something is
release DIR NAME LABEL [--percent N] [--group G]…    write agents/releases.yaml
back DIR NAME             the releases of before the last change
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import yaml

from memoryos_harness.adapters.agent_files import (
    PROMPT_KEY,
    RELEASES_FILE,
    AgentFileInvalid,
    check_releases,
    files_of,
    read_agent,
    read_agents,
    read_releases,
)
from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.releases import AgentReleases, ReleasesFile, released, taken_back

HIDDEN: Final = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
SCHEMA_BYTES_MAX: Final = 65_536


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="memoryos_harness.agent_tool", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("lint", "release", "back"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        if name == "lint":
            command.add_argument("--skills", type=Path)
        else:
            command.add_argument("name")
        if name == "release":
            command.add_argument("label")
            command.add_argument("--percent", type=int)
            command.add_argument("--group", action="append", default=[])
    options = parser.parse_args()
    try:
        found, code = _run(options)
    except (AgentFileInvalid, OSError, ValueError) as error:
        found, code = {"error": str(error)}, 1
    sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
    sys.exit(code)


def _run(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    if options.command == "lint":
        remarks = list(lint(options.folder, options.skills))
        return {"remarks": remarks}, int(bool(remarks))
    with _alone(options.folder):
        return _change(options)


def _change(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    agents = read_agents(options.folder)
    if options.name not in agents:
        return {"error": f"there is no agent {options.name}"}, 1
    current = dict(read_releases(options.folder, agents))
    mine = current.get(options.name, AgentReleases())
    if options.command == "back":
        if mine.before is None:
            return {"error": f"nothing was released of {options.name} before"}, 1
        mine = taken_back(mine)
    else:
        if options.label not in agents[options.name]:
            return {"error": f"the agent {options.name} has no version {options.label!r}"}, 1
        mine = released(mine, options.label, percent=options.percent, groups=options.group)
    write_releases(options.folder, ReleasesFile(agents={**current, options.name: mine}), agents)
    return {"agent": options.name, "releases": [release.model_dump() for release in mine.releases]}, 0


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let nobody else change the releases meanwhile: two at once would both start from the same state."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_releases(folder: Path, file: ReleasesFile, agents: Mapping[str, Mapping[str, Agent]]) -> None:
    """Write the releases whole or not at all; a state that would not be taken is not written."""
    check_releases(folder / RELEASES_FILE, file.agents, agents)
    part = folder / f".{RELEASES_FILE}.{os.getpid()}.part"
    try:
        text = yaml.safe_dump(file.model_dump(mode="json"), allow_unicode=True, sort_keys=True)
        with part.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, folder / RELEASES_FILE)
    finally:
        part.unlink(missing_ok=True)


def lint(folder: Path, skills: Path | None) -> Iterator[dict[str, Any]]:
    """Give what is wrong with the files of a folder, each with the place and the sentence to mend it."""
    agents: dict[str, dict[str, Agent]] = {}
    own, labelled = files_of(folder)
    for path in (*own, *labelled):
        try:
            agent = read_agent(path, root=None if path.parent == folder else folder)
        except AgentFileInvalid as error:
            yield _remark(path, error.key, str(error).removeprefix(f"{path}: "), "file")
            continue
        agents.setdefault(agent.name, {})["" if path.parent == folder else path.stem] = agent
        yield from _of_agent(path, agent, _names(skills))
    yield from _of_families(folder, agents)
    try:
        read_releases(folder, agents)
    except AgentFileInvalid as error:
        yield _remark(folder / RELEASES_FILE, "agents", str(error).partition(": ")[2], "releases")


def _of_agent(path: Path, agent: Agent, skills: frozenset[str] | None) -> Iterator[dict[str, Any]]:
    if skills is not None:
        for name in sorted(set(agent.skills) - skills):
            yield _remark(path, name, f"there is no skill {name}: name one of the skill files, or take it out", "skill")
    for key in ("name", "description", "instructions"):
        hidden = sorted({f"U+{ord(char):04X}" for char in str(getattr(agent, key)) if _is_hidden(char)})
        if hidden:
            yield _remark(
                path, key, f"{key} holds characters that nobody sees ({', '.join(hidden)}): remove them", "hidden"
            )
    if agent.output_schema is not None:
        yield from _of_schema(path, agent.output_schema)


def _of_schema(path: Path, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = json.dumps(schema)
    if len(text) > SCHEMA_BYTES_MAX:
        yield _remark(path, "output_schema", f"the schema has more than {SCHEMA_BYTES_MAX} bytes", "schema")
        return
    if any(not ref.startswith("#") for ref in _refs(schema)):
        yield _remark(path, "output_schema", "$ref leads out of the schema: write it out, or use #/$defs/…", "schema")
        return
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except (jsonschema_rs.ValidationError, ValueError) as error:
        yield _remark(path, "output_schema", f"no JSON Schema 2020-12: {str(error).splitlines()[0]}", "schema")


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(inner, str):
                yield inner
            yield from _refs(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _refs(inner)


def _of_families(folder: Path, agents: Mapping[str, Mapping[str, Agent]]) -> Iterator[dict[str, Any]]:
    for name, versions in sorted(agents.items()):
        for label, agent in versions.items():
            path = folder / name / f"{label}.yaml" if label else folder / f"{name}.yaml"
            for child in agent.agents:
                if child not in agents:
                    yield _remark(
                        path, child, f"there is no agent {child}: write {child}.yaml, or take it out", "agent"
                    )
            if label == "" and _leads_back(name, agents):
                yield _remark(path, "agents", f"{name} leads back to itself: limits.depth alone ends it", "cycle")


def _leads_back(start: str, agents: Mapping[str, Mapping[str, Agent]]) -> bool:
    seen: set[str] = set()
    further = {start}
    while further - seen:
        seen |= further
        further = {c for name in further for version in agents.get(name, {}).values() for c in version.agents}
        if start in further:
            return True
    return False


def _names(skills: Path | None) -> frozenset[str] | None:
    if skills is None:
        return None
    names = {str(yaml.safe_load(path.read_text(encoding="utf-8")).get("name")) for path in skills.glob("*.yaml")}
    return frozenset(names | {"memory.read", "memory.write"})


def _is_hidden(char: str) -> bool:
    return char in HIDDEN or (unicodedata.category(char) in ("Cc", "Cf") and char not in "\n\r\t")


def _remark(path: Path, pointer: str, text: str, rule: str) -> dict[str, Any]:
    return {"file": str(path), "line": _line(path, pointer), "pointer": pointer, "text": text, "rule": rule}


def _line(path: Path, word: str) -> int:
    """Give the first line that holds a word, 1 where none does."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    wanted = word or PROMPT_KEY
    return next((number for number, line in enumerate(lines, 1) if wanted in line), 1)


if __name__ == "__main__":
    main()
