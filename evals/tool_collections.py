"""Collections of tools that others publish, as skill files, and what people ask of them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryos_toolgateway.domain.names import SKILL_NAME_LENGTH_MAX, check_skill_name, collision_key

_PARTS = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True)
class Asked:
    """A request, and for each tool that it needs the tools that are one."""

    text: str
    needed: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Collection:
    """Tools by id, as documents of skill files, with what is asked of them."""

    name: str
    documents: dict[str, dict[str, Any]]
    names: dict[str, str]
    """As published: two tools may have one."""
    asked: tuple[Asked, ...] = ()
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Calls that are right: id of the tool, arguments."""


def collections(folder: Path) -> Iterator[Collection]:
    """Give the collections in `folder` (laid out like the public evaluation data's tools/)."""
    if (tools := rows(folder / "bfcl_tools.jsonl")) is not None:
        calls = rows(folder / "bfcl_calls.jsonl") or []
        yield Collection(
            "bfcl_tools",
            documents(tools),
            names(tools),
            tuple(
                Asked(c["query"], tuple((i,) for i in dict.fromkeys(x["tool_id"] for x in c["calls"]))) for c in calls
            ),
            tuple((call["tool_id"], call["arguments"]) for c in calls for call in c["calls"]),
        )
    if (tools := rows(folder / "livemcp_tools.jsonl")) is not None:
        tasks = rows(folder / "livemcp_tasks.jsonl") or []
        asked = [Asked(t["question"], tuple(tuple(ids) for ids in t["gold_tool_ids"] if ids)) for t in tasks]
        yield Collection("livemcp_tools", documents(tools), names(tools), tuple(a for a in asked if a.needed))
    if (folder / "mcp_reference_tools_list.json").exists():
        servers = json.loads((folder / "mcp_reference_tools_list.json").read_bytes())
        tools = [tool | {"server": server["server"]} for server in servers for tool in server["tools"]]
        yield Collection("mcp_reference", documents(tools), names(tools))
    if (tools := rows(folder / "agentdojo_tools.jsonl")) is not None:
        yield Collection("agentdojo_tools", documents(tools), names(tools))


def rows(file: Path) -> list[Any] | None:
    """Give the lines of a file of JSON lines, plain or gzipped; None where there is none."""
    packed = file.with_name(file.name + ".gz")
    if packed.exists():
        return [json.loads(line) for line in gzip.decompress(packed.read_bytes()).splitlines()]
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else None


def documents(tools: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give each tool as the document of a skill that reads; a name that is taken gets its server's or its id's."""
    taken: set[str] = set()
    found: dict[str, dict[str, Any]] = {}
    for number, tool in enumerate(tools):
        tool_id = tool.get("tool_id", str(number))
        name = _free_name(tool, tool_id, taken)
        taken.add(collision_key(name))
        system = {"name": tool.get("server", "")[:128], "description": (tool.get("server_description") or "")[:1000]}
        found[tool_id] = ({"system": system} if system["name"] else {}) | {
            "name": name,
            "version": "1",
            "description": (tool.get("description") or tool["name"])[:4000],
            "parameters": tool["inputSchema"],
            "effect_class": "read",
            "risk": "low",
            "connector": {
                "type": "http",
                "endpoint": "localhost:1",
                "method": "POST",
                "path": "/",
                "body": "arguments",
            },
        }
    return found


def names(tools: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Give the published name of each tool by its id."""
    return {tool.get("tool_id", str(number)): tool["name"] for number, tool in enumerate(tools)}


def _free_name(tool: dict[str, Any], tool_id: str, taken: set[str]) -> str:
    server = _PARTS.sub("-", tool.get("server", "")).strip("-")
    for name in (tool["name"], f"{server}.{tool['name']}", f"{tool['name']}.{tool_id}", f"{server[:20]}.{tool_id}"):
        if check_skill_name(name[:SKILL_NAME_LENGTH_MAX]) is None and collision_key(name) not in taken:
            return str(name[:SKILL_NAME_LENGTH_MAX])
    return f"tool.{_PARTS.sub('-', tool_id)}"
