"""AgentCatalog: one YAML file per agent, all read and checked at start."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from memoryos_harness.domain.agents import Agent
from memoryos_harness.errors import AgentNotFound

FILE_BYTES_MAX: Final = 131_072
FILES_MAX: Final = 1_000


class AgentFileInvalid(Exception):
    """An agent file is wrong; the message names file, field and what is expected."""


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


class AgentFiles:
    """See `AgentCatalog`. Files are read when it is made; a changed file counts after the next start."""

    def __init__(self, agents: dict[str, Agent]) -> None:
        self._agents = agents

    @classmethod
    def load(cls, folder: Path) -> AgentFiles:
        """Give the agents of a folder's *.yaml files, or raise AgentFileInvalid for the first wrong one."""
        paths = sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))
        if not folder.is_dir():
            raise AgentFileInvalid(f"{folder} is no folder of agent files")
        if len(paths) > FILES_MAX:
            raise AgentFileInvalid(f"{folder} holds more than {FILES_MAX} agent files")
        agents: dict[str, Agent] = {}
        for path in paths:
            agent = read_agent(path)
            if agent.name in agents:
                raise AgentFileInvalid(f"{path}: the agent {agent.name} has two files")
            agents[agent.name] = agent
        return cls(agents)

    def find(self, name: str) -> Agent:
        """See `AgentCatalog.find`."""
        agent = self._agents.get(name)
        if agent is None:
            raise AgentNotFound
        return agent

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all agents."""
        return tuple(self._agents)


def read_agent(path: Path) -> Agent:
    """Give the agent of one file, or raise AgentFileInvalid."""
    if path.stat().st_size > FILE_BYTES_MAX:
        raise AgentFileInvalid(f"{path}: more than {FILE_BYTES_MAX} bytes")
    try:
        # The loader is a SafeLoader that refuses more.
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)  # noqa: S506
        agent = Agent.of(document)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AgentFileInvalid(f"{path}: no YAML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise AgentFileInvalid(f"{path}: {where}: {first['msg']}") from None
    if path.stem != agent.name:
        raise AgentFileInvalid(f"{path}: the file of the agent {agent.name} is called {agent.name}.yaml")
    return agent
