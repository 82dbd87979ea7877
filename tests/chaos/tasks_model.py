"""A chat model without a mind: `python tasks_model.py PORT`. The question is its plan, as JSON.

{"calls": [[skill, name], …], "at_once": n}: it asks for the calls in order, n in each reply, and in the end says
as JSON what became of each. Whatever was asked before it is started is answered the same after: it keeps nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from memoryos_models.scripted import ScriptedCall, ScriptedReply, ScriptedServer


def script(request: Mapping[str, Any]) -> ScriptedReply | str:
    """Give the next calls of the plan, or what became of all of them."""
    messages = request["messages"]
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    plan = json.loads(messages[asked]["content"])
    answers = [message for message in messages[asked:] if message["role"] == "tool"]
    following = plan["calls"][len(answers) : len(answers) + plan["at_once"]]
    if not following:
        return json.dumps([json.loads(answer["content"])["status"] for answer in answers])
    calls = [ScriptedCall(name=skill.replace(".", "__"), arguments={"name": name}) for skill, name in following]
    return ScriptedReply(tool_calls=calls)


if __name__ == "__main__":
    with ScriptedServer(script, port=int(sys.argv[1])) as server:
        server.stopping.wait()
