"""The scripted model of the demo: one script for all scenes, which knows none of them.

It stands where a language model would, behind the same HTTP interface. It reads
the question, what was recalled and what tools answered, and builds every reply
from those: nothing that a scene expects is written down here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from memoryos_models.scripted import ScriptedCall, ScriptedReply

RECALL: Final = "recall_memory"
WRITE: Final = "memory__write"
STANDING_ORDER: Final = re.compile(r"以后|今后|from now on|in future|always", re.IGNORECASE)


@dataclass(frozen=True)
class Answered:
    """A tool call that was made, and what came back."""

    tool: str
    answer: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.answer.get("status") == "ok"


@dataclass(frozen=True)
class Turn:
    """What one request tells the model."""

    question: str
    offered: frozenset[str]
    recalled: list[Mapping[str, Any]] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Turn:
        """Read a chat completion request; only what follows the last question counts."""
        messages = request["messages"]
        start = max(i for i, message in enumerate(messages) if message["role"] == "user")
        offered = frozenset(tool["function"]["name"] for tool in request.get("tools") or [])
        turn = cls(messages[start]["content"], offered)
        names: dict[str, str] = {}
        for message in messages[start + 1 :]:
            for call in message.get("tool_calls") or []:
                names[call["id"]] = call["function"]["name"]
            if message["role"] == "tool":
                answer = json.loads(message["content"])
                if names[message["tool_call_id"]] == RECALL:
                    turn.recalled.extend(answer["items"])
                else:
                    turn.answered.append(Answered(names[message["tool_call_id"]], answer))
        return turn

    def last(self, tool: str) -> Answered | None:
        """Give the newest answer of a tool."""
        return next((call for call in reversed(self.answered) if call.tool == tool), None)


def cite(item: Mapping[str, Any]) -> str:
    """Give an item's text with its id."""
    return f"{item['content']} [{item['id']}]"


def spell(result: Any) -> str:
    """Give a tool's result in words."""
    if isinstance(result, Mapping):
        return ", ".join(f"{name} {spell(value)}" for name, value in result.items())
    return str(result)


@dataclass(frozen=True)
class Skill:
    """When the model thinks of a tool, and how it fills the arguments in."""

    tool: str
    pattern: re.Pattern[str]
    arguments: Callable[[re.Match[str]], dict[str, Any]]
    remember: Callable[[Any], str] | None = None
    """What it writes to memory of a result; None: nothing."""


SKILLS: Final = (
    Skill(
        "mes__takt_time",
        re.compile(r"takt time of line (\w+)", re.IGNORECASE),
        lambda m: {"line": m[1]},
        lambda r: f"Takt time of line {r['line']}: {r['takt_time_s']} s, product {r['product']}, {r['shift']} shift",
    ),
    Skill("crm__customer", re.compile(r"customer (C-\d+)", re.IGNORECASE), lambda m: {"customer_id": m[1]}),
    Skill(
        "mail__send",
        re.compile(r"mail to (\S+@\S+?): (.+)", re.IGNORECASE),
        lambda m: {"to": [m[1]], "subject": m[2][:60], "text": m[2]},
    ),
    Skill(
        "group__notify",
        re.compile(r"告诉班组：(\w+) ?线(.+)"),
        lambda m: {"line": m[1], "text": m[2].strip()},
    ),
    Skill("ticket__delete", re.compile(r"delete .*?(TCK-\d+)", re.IGNORECASE), lambda m: {"ticket_id": m[1]}),
    Skill(
        "refund__create",
        re.compile(r"refund (\d+(?:\.\d+)?) .*?(O-\d+)", re.IGNORECASE),
        lambda m: {"amount": float(m[1]), "order_id": m[2]},
    ),
)


def script(request: dict[str, Any]) -> ScriptedReply | str:
    """Give the model's reply to a request."""
    turn = Turn.of(request)
    for skill in SKILLS:
        match = skill.pattern.search(turn.question)
        if match and skill.tool in turn.offered:
            return _use(skill, match, turn)
    if STANDING_ORDER.search(turn.question) and WRITE in turn.offered:
        return _remember(turn.question, turn, origin="stated") or "Noted. 已记住。"
    if turn.recalled:
        return f"From memory: {cite(turn.recalled[0])}"
    return "I do not know; nothing that I may read says so."


def _use(skill: Skill, match: re.Match[str], turn: Turn) -> ScriptedReply | str:
    if skill.remember:
        # A recalled item answers when it speaks of what was asked, word for word.
        known = [item for item in turn.recalled if match[0].lower() in str(item["content"]).lower()]
        if known:
            return f"From memory: {cite(known[0])}"
    call = turn.last(skill.tool)
    if call is None:
        return _call(skill.tool, skill.arguments(match))
    if not call.ok:
        return f"That was not done: {call.answer.get('message', '')}"
    result = call.answer["result"]
    if skill.remember and WRITE in turn.offered:
        pending = _remember(skill.remember(result), turn, origin="observed")
        if pending:
            return pending
    return f"Done: {spell(result)}"


def _remember(content: str, turn: Turn, *, origin: str) -> ScriptedReply | None:
    """Give the call that writes to memory, or None once it was answered."""
    return None if turn.last(WRITE) else _call(WRITE, {"content": content, "origin": origin})


def _call(tool: str, arguments: dict[str, Any]) -> ScriptedReply:
    return ScriptedReply(tool_calls=[ScriptedCall(name=tool, arguments=arguments)])
