"""A family of agents for tests: each does what its question says, children included."""

import json
from typing import Any

from memoryos.harness.v1 import tasks_pb2
from memoryos_models.scripted import ScriptedCall, ScriptedReply

from .world import Client, question, tool_answers

CHILD = tasks_pb2.STEP_KIND_CHILD_TASK


def ask(name: str, *inside: Any) -> dict[str, Any]:
    """Let a sub-agent do these things; of words it says them."""
    return {"agent": name, "task": say(*inside)}


def use(skill: str, line: str = "A") -> dict[str, Any]:
    """Call a skill."""
    return {"skill": skill, "line": line}


def say(*inside: Any) -> str:
    """Give the question that makes an agent do these things, all of them in one reply."""
    return inside[0] if len(inside) == 1 and isinstance(inside[0], str) else json.dumps(list(inside))


def family_script(request: dict[str, Any]) -> ScriptedReply | str:
    """Make all calls of the question in one reply; then say what came of each, as JSON."""
    asked = question(request)
    answers = tool_answers(request)
    if answers:
        return json.dumps({"answers": answers})
    if not asked.startswith("["):
        return asked
    return ScriptedReply(tool_calls=[_call(wanted) for wanted in json.loads(asked)])


def _call(wanted: dict[str, Any]) -> ScriptedCall:
    if "agent" in wanted:
        return ScriptedCall(name=f"agent__{wanted['agent']}", arguments={"task": wanted["task"]})
    return ScriptedCall(name=wanted["skill"].replace(".", "__"), arguments={"line": wanted["line"]})


def answers(task: tasks_pb2.Task) -> list[dict[str, Any]]:
    """What a task of the family was told by its calls."""
    return json.loads(task.output)["answers"]


async def children(client: Client, task_id: str) -> list[tasks_pb2.Task]:
    """The child tasks of a task, in the order of its steps."""
    return [await client.get(s.child_task_id) for s in await client.steps(task_id) if s.child_task_id]
