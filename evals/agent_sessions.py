"""Recorded sessions of agents, and the calls that somebody else's words made them try, as questions to Decide.

Nobody wrote skill files for these tools, so what a file would declare is told from the tool's own schema: what reads
and what writes by the first word of its name, who receives something by the names of its parameters.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_READING: Final = frozenset(
    [
        "get",
        "read",
        "search",
        "list",
        "find",
        "check",
        "view",
        "lookup",
        "look",
        "calculate",
        "show",
        "count",
        "describe",
        "fetch",
        "query",
        "ask",
        "browse",
    ]
)
_REMOVING: Final = frozenset(["delete", "remove", "cancel", "erase", "drop", "clear", "revoke", "wipe", "reset"])
_RECEIVER: Final = re.compile(
    r"recipient|participant|e?mail\b|_email\b|\burl\b|\b(?:to|cc|bcc)\b|iban|phone|\buser\b|channel|address\b"
)
_OUTSIDE: Final = re.compile(r"e-?mail|url|web|iban|link|participant|phone")
_OF_WORDS: Final = re.compile(r"[._\-\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool and what a skill file would say of it."""

    suite: str
    name: str
    reads: bool
    destructive: bool
    egress: str
    recipients: tuple[str, ...]

    @property
    def skill(self) -> str:
        """Its name as a skill."""
        return f"agents.{self.suite}.{self.name}"

    @property
    def intents(self) -> tuple[str, ...]:
        """The word by which a user asks for it."""
        return (_OF_WORDS.split(self.name)[0],)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a session."""

    tool: Tool
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a user asked for and the calls that answer it; or what an attacker wants, and its calls."""

    suite: str
    task: str
    goal: str
    steps: tuple[Step, ...]


def load(folder: Path) -> tuple[list[Session], list[Session]]:
    """Give the sessions of users and those of attackers from a folder laid out like the public data's tools/."""
    tools = {(row["suite"], row["name"]): _tool(row) for row in _rows(folder / "agentdojo_tools.jsonl")}
    grouped: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(folder / "agentdojo_calls.jsonl"):
        grouped[row["kind"], row["suite"], row["task"]].append(row)
    users: list[Session] = []
    attackers: list[Session] = []
    for (kind, suite, task), rows in grouped.items():
        rows.sort(key=lambda row: row["step"])
        steps = tuple(Step(tool=tools[suite, row["tool"]], arguments=row["args"]) for row in rows)
        session = Session(suite=suite, task=task, goal=rows[0]["goal"], steps=steps)
        (users if kind == "user" else attackers).append(session)
    return users, attackers


def _tool(row: Mapping[str, Any]) -> Tool:
    verb = _OF_WORDS.split(row["name"])[0]
    reads = verb in _READING
    recipients, outside = [], False
    for name, schema in (row["inputSchema"].get("properties") or {}).items():
        words = name.replace("_", " ")
        if name.endswith("_id") or not (_RECEIVER.search(words) or _RECEIVER.search(name)):
            continue
        is_list = any(part.get("type") == "array" for part in (schema, *schema.get("anyOf", ())))
        recipients.append(f"/{name}/*" if is_list else f"/{name}")
        outside = outside or bool(_OUTSIDE.search(f"{words} {schema.get('description', '')}".lower()))
    return Tool(
        suite=row["suite"],
        name=row["name"],
        reads=reads,
        destructive=verb in _REMOVING,
        egress="none" if reads or not recipients else "external" if outside else "internal",
        recipients=() if reads else tuple(recipients),
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
