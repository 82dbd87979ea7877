"""The published JSON Schemas of agent files and of their releases, made from the classes that enforce them."""

from __future__ import annotations

import json
from typing import Any, Final

from memoryos_harness.domain.agents import Agent
from memoryos_harness.domain.releases import ReleasesFile

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PROMPT: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 1024,
    "description": "File below the folder of agents that holds the instructions, instead of them.",
}


def agent_schema_text() -> str:
    """Give the text of services/harness/schemas/agent.schema.json (JSON Schema 2020-12)."""
    schema = Agent.model_json_schema()
    schema["properties"]["instructions_file"] = _PROMPT
    schema["required"] = [name for name in schema["required"] if name != "instructions"]
    schema["oneOf"] = [{"required": ["instructions"]}, {"required": ["instructions_file"]}]
    return _text(schema, "Agent file of Memory OS")


def releases_schema_text() -> str:
    """Give the text of services/harness/schemas/releases.schema.json (JSON Schema 2020-12)."""
    return _text(ReleasesFile.model_json_schema(), "Releases of agents of Memory OS")


def _text(schema: dict[str, Any], title: str) -> str:
    return (
        json.dumps({**schema, "$schema": _DRAFT, "title": title}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    )
