"""Agents and scripted models of runs with plans, failures, structured answers and small windows."""

import json
from collections.abc import Mapping
from typing import Any

from memoryos_models.scripted import ScriptedCall, ScriptedReply

from .world import tool_answers

NUMBER = {
    "type": "object",
    "properties": {"takt_s": {"type": "integer", "minimum": 1}},
    "required": ["takt_s"],
    "additionalProperties": False,
}
SKILLS = ["mes.takt", "ticket.delete", "refund.pay", "mail.send", "slow.report"]
QUICK = {"*": {"retries": 2, "backoff_s": 0.05}}

AGENTS: Mapping[str, Mapping[str, Any]] = {
    "trying": {"instructions": "You try.", "skills": SKILLS, "on_failure": QUICK, "limits": {"seconds": 120}},
    "patient": {
        "instructions": "You wait.", "skills": SKILLS, "on_failure": {"*": {"retries": 1, "backoff_s": 4.0}},
    },
    "endless": {
        "instructions": "You wait long.", "skills": SKILLS, "on_failure": {"*": {"retries": 1, "backoff_s": 60.0}},
    },
    "handing": {
        "instructions": "You ask people.", "skills": SKILLS,
        "on_failure": {"*": {"retries": 0, "then": "hand_off"}},
    },
    "planner": {
        "instructions": "You plan.", "skills": SKILLS, "strategy": "plan_execute", "revisions": 1,
        "on_failure": {"*": {"retries": 1, "backoff_s": 0.05, "other_skills": ["slow.report"]}},
        "output_schema": NUMBER, "limits": {"seconds": 120},
    },
    "exact": {
        "instructions": "You answer in JSON.", "skills": ["mes.takt"], "output_schema": NUMBER,
        "limits": {"attempts": 2},
    },
    "forgetful": {
        "instructions": "You have little room.", "skills": SKILLS, "context": {"tokens": 1000, "turns": 2},
        "limits": {"seconds": 120},
    },
    "busy": {
        "instructions": "You ask much.", "skills": SKILLS, "limits": {"steps": 200, "calls": 100, "seconds": 300},
    },
}  # fmt: skip


def call(tool: str, **arguments: Any) -> ScriptedReply:
    return ScriptedReply(tool_calls=[ScriptedCall(name=tool, arguments=arguments)])


def last_said(request: Mapping[str, Any]) -> str:
    return str(request["messages"][-1]["content"])


def replies_of(request: Mapping[str, Any]) -> int:
    """How often the model has replied in this task, recall aside."""
    notes = ("recall_memory", "working_memory")
    return sum(
        m["role"] == "assistant" and not any(c["function"]["name"] in notes for c in m.get("tool_calls") or ())
        for m in request["messages"]
    )


def plan_script(request: dict[str, Any]) -> ScriptedReply | str:
    """Two steps; the first verdict is no, the first plan and the first answer are no good."""
    said = last_said(request)
    texts = [str(m["content"]) for m in request["messages"]]
    if "make a plan" in said:
        return json.dumps({"steps": [{"do": "read the takt"}]})
    if "Make a new plan" in said or "/steps/0: required" in said:
        return json.dumps({"steps": [{"do": "read the takt", "expect": "seconds", "skill": "mes.takt"}]})
    if "Do this step now" in said:
        revised = any("Make a new plan" in text for text in texts)
        return call("mes__takt", line="B" if revised else "A")
    if "Is it met" in said:
        met = sum("Is it met" in text for text in texts) > 1
        return json.dumps({"met": met, "why": "" if met else "it is the wrong line"})
    if "Answer the question now" in said:
        return "forty-two"
    if "not of the agreed form" in said:
        return '{"takt_s": 42}'
    return "The line says so."


def many_calls(count: int) -> Any:
    """Asks for one call after the other."""

    def script(request: dict[str, Any]) -> ScriptedReply | str:
        done = max((int(m["tool_call_id"].removeprefix("n")) for m in request["messages"]
                    if m["role"] == "tool" and m["tool_call_id"].startswith("n")), default=0)  # fmt: skip
        if done >= count:
            return f"answer: {done}"
        named = ScriptedCall(name="mes__takt", arguments={"line": f"{done + 1} " + "x" * 600}, id=f"n{done + 1}")
        return ScriptedReply(tool_calls=[named])

    return script


def once(tool: str) -> Any:
    """Calls a tool once, then says what came of it."""

    def script(request: dict[str, Any]) -> ScriptedReply | str:
        answers = tool_answers(request)
        return json.dumps(answers[-1]) if answers else call(tool, line="A")

    return script
