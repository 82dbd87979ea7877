"""The published JSON Schema of agent files, made from the classes that enforce it."""

from __future__ import annotations

import json

from memoryos_harness.domain.agents import Agent


def agent_schema_text() -> str:
    """Give the text of services/harness/schemas/agent.schema.json (JSON Schema 2020-12)."""
    schema = Agent.model_json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Agent file of Memory OS"}
    return json.dumps({**schema, **head}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
