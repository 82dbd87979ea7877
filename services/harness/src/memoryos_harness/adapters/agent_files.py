"""AgentCatalog on files: YAML per agent and version, prompts beside them, releases. Re-read when they change."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from memoryos_core.tokens import Identity
from pydantic import BaseModel, ValidationError

from memoryos_harness.domain.agents import Agent, tuples
from memoryos_harness.domain.releases import AgentReleases, KnownAgent, Release, ReleasesFile, label_for
from memoryos_harness.errors import AgentNotFound

FILE_BYTES_MAX: Final = 131_072
PROMPT_BYTES_MAX: Final = 32_768
FILES_MAX: Final = 1_000
LOOK_S: Final = 1.0
"""How often it is looked whether a file has changed."""
RELEASES_FILE: Final = "releases.yaml"
PROMPT_KEY: Final = "instructions_file"
_LOG: Final = logging.getLogger(__name__)
M = TypeVar("M", bound=BaseModel)


class AgentFileInvalid(Exception):
    """An agent file is wrong; the message names file, field and what is expected. `key` is the field, "" for none."""

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is there twice: two readers would pick different ones."""


def _mapping(loader: _UniqueKeys, node: yaml.MappingNode) -> dict[Any, Any]:
    pairs = [(loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
             for key, value in node.value]  # fmt: skip
    found = dict(pairs)
    if len(found) != len(pairs):
        raise yaml.constructor.ConstructorError(None, None, "a key is there twice", node.start_mark)
    return found


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


@dataclass(frozen=True, slots=True)
class _State:
    """What the files say: agents by name and label, and their releases."""

    agents: Mapping[str, Mapping[str, Agent]]
    releases: Mapping[str, AgentReleases]


@dataclass(slots=True)
class AgentFiles:
    """See `AgentCatalog`."""

    folder: Path
    _state: _State
    _stamp: object
    _fault: str = ""
    _looked: float = field(default_factory=time.monotonic)

    @classmethod
    def load(cls, folder: Path) -> AgentFiles:
        """Give the agents of a folder, or raise AgentFileInvalid for the first wrong file."""
        stamp = _stamp_of(folder)
        return cls(folder, _read(folder), stamp)

    def find(self, name: str, who: Identity) -> KnownAgent:
        """See `AgentCatalog.find`."""
        state = self._fresh()
        if name not in state.agents:
            raise AgentNotFound
        return _known(state, name, who)

    def known(self, who: Identity) -> Sequence[KnownAgent]:
        """See `AgentCatalog.known`."""
        state = self._fresh()
        return [_known(state, name, who) for name in sorted(state.agents)]

    def versions(self, name: str) -> Sequence[tuple[Release, str]]:
        """See `AgentCatalog.versions`."""
        state = self._fresh()
        if name not in state.agents:
            raise AgentNotFound
        releases = state.releases.get(name, AgentReleases()).releases
        rest = 100 - sum(release.percent for release in releases)
        shown = [*releases, Release(label="", percent=rest)] if rest else [*releases]
        return [(release, state.agents[name][release.label].version) for release in shown]

    @property
    def fault(self) -> str:
        """See `AgentCatalog.fault`."""
        self._fresh()
        return self._fault

    def _fresh(self) -> _State:
        """Give what the files say; while they are wrong, what they said before."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return self._state
        self._looked = now
        try:
            stamp = _stamp_of(self.folder)
            if stamp != self._stamp:
                self._stamp = stamp
                self._state, self._fault = _read(self.folder), ""
                _LOG.info("agent files read again", extra={"agents": len(self._state.agents)})
        except (AgentFileInvalid, OSError) as error:
            self._fault = str(error)
            _LOG.warning("agent files are wrong, the last good ones stand", extra={"fault": self._fault[:500]})
        return self._state


def _known(state: _State, name: str, who: Identity) -> KnownAgent:
    label = label_for(state.releases.get(name, AgentReleases()).releases, who, name)
    return KnownAgent(state.agents[name][label], label)


def _stamp_of(folder: Path) -> object:
    """Give what changes when a file does."""
    found = []
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        if stat.S_ISREG(info.st_mode):
            found.append((str(path), info.st_mtime_ns, info.st_size, info.st_ino))
    return tuple(found)


def files_of(folder: Path) -> tuple[list[Path], list[Path]]:
    """Give the agents' own files, and those of their other versions."""
    own = sorted(p for p in (*folder.glob("*.yaml"), *folder.glob("*.yml")) if p.name != RELEASES_FILE)
    return own, sorted((*folder.glob("*/*.yaml"), *folder.glob("*/*.yml")))


def _read(folder: Path) -> _State:
    agents = read_agents(folder)
    return _State(agents, read_releases(folder, agents))


def read_agents(folder: Path) -> Mapping[str, Mapping[str, Agent]]:
    """Give the agents of a folder by name and label, "" for their own file; raise AgentFileInvalid for a wrong file."""
    if not folder.is_dir():
        raise AgentFileInvalid(f"{folder} is no folder of agent files")
    own, labelled = files_of(folder)
    if len(own) + len(labelled) > FILES_MAX:
        raise AgentFileInvalid(f"{folder} holds more than {FILES_MAX} agent files")
    agents: dict[str, dict[str, Agent]] = {}
    for path in own:
        agent = read_agent(path)
        if agent.name in agents:
            raise AgentFileInvalid(f"{path}: the agent {agent.name} has two files")
        agents[agent.name] = {"": agent}
    for path in labelled:
        agent = read_agent(path, root=folder)
        if agent.name not in agents:
            raise AgentFileInvalid(f"{path}: {agent.name} has no file {agent.name}.yaml, which all others get")
        if path.stem in agents[agent.name]:
            raise AgentFileInvalid(f"{path}: the version {path.stem} of {agent.name} has two files")
        agents[agent.name][path.stem] = agent
    return agents


def read_releases(folder: Path, agents: Mapping[str, Mapping[str, Agent]]) -> Mapping[str, AgentReleases]:
    """Give the releases of a folder; every version that they name has its file."""
    path = folder / RELEASES_FILE
    if not path.is_file():
        return {}
    found = _checked(path, ReleasesFile, _document(path)).agents
    check_releases(path, found, agents)
    return found


def check_releases(
    path: Path, releases: Mapping[str, AgentReleases], agents: Mapping[str, Mapping[str, Agent]]
) -> None:
    """Raise AgentFileInvalid for a version that has no file."""
    for name, of_agent in releases.items():
        for release in of_agent.releases:
            if release.label not in agents.get(name, {}):
                raise AgentFileInvalid(f"{path}: the agent {name} has no version {release.label!r}")


def read_agent(path: Path, *, root: Path | None = None) -> Agent:
    """Give the agent of one file, or raise AgentFileInvalid. Versions lie in a folder of the agent's name."""
    document = _document(path)
    if isinstance(document, dict) and PROMPT_KEY in document:
        if "instructions" in document:
            raise AgentFileInvalid(f"{path}: instructions and {PROMPT_KEY} cannot stand together")
        document = {**document, "instructions": _prompt(root or path.parent, path, document[PROMPT_KEY])}
        del document[PROMPT_KEY]
    agent = _checked(path, Agent, document)
    if root is None and path.stem != agent.name:
        raise AgentFileInvalid(f"{path}: the file of the agent {agent.name} is called {agent.name}.yaml")
    if root is not None and path.parent.name != agent.name:
        raise AgentFileInvalid(f"{path}: versions of the agent {agent.name} lie in the folder {agent.name}")
    return agent


def _document(path: Path) -> Any:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise AgentFileInvalid(f"{path}: more than {FILE_BYTES_MAX} bytes")
    try:
        # The loader is a SafeLoader that refuses more.
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AgentFileInvalid(f"{path}: no YAML: {error}") from None


def _checked(path: Path, model: type[M], document: Any) -> M:
    try:
        return model.model_validate(tuples(document))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        key = next((part for part in reversed(first["loc"]) if isinstance(part, str)), "")
        raise AgentFileInvalid(f"{path}: {where}: {first['msg']}", key=key) from None


def _prompt(root: Path, path: Path, name: Any) -> str:
    """Give the text of a prompt file below the folder of agents; no link and no `..` leads out of it."""
    parts = Path(name).parts if isinstance(name, str) else ()
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise AgentFileInvalid(f"{path}: {PROMPT_KEY}: a file below the folder of agents, e.g. prompts/{path.stem}.md")
    opened = [os.open(root, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part in parts[:-1]:
            opened.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[-1]))
        opened.append(os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened[-1]))
        if not stat.S_ISREG(os.fstat(opened[-1]).st_mode):
            raise AgentFileInvalid(f"{path}: {PROMPT_KEY}: {name} is no file")
        raw = os.read(opened[-1], PROMPT_BYTES_MAX + 1)
    except OSError as error:
        raise AgentFileInvalid(f"{path}: {PROMPT_KEY}: {name} cannot be read: {error.strerror}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)
    if len(raw) > PROMPT_BYTES_MAX:
        raise AgentFileInvalid(f"{path}: {PROMPT_KEY}: {name} has more than {PROMPT_BYTES_MAX} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise AgentFileInvalid(f"{path}: {PROMPT_KEY}: {name} is no UTF-8") from None
