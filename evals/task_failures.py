"""An upstream that fails: what reflection earns. Tasks of one act each, by an agent that has no plan for failures and
by one that has; effects are counted in the upstream's books."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from memoryos_models.scripted import ScriptedCall, ScriptedReply
from memoryos_sdk import Client

from evals.task_world import Asked, TaskWorld, running, skill

FAILS: Final = 0.18
WAYS: Final = ("late", "changed", "refused")
TASKS: Final = 300
AT_ONCE: Final = 12
TIMEOUT_S: Final = 0.6
_SHAPE: Final = {
    "schema": {"type": "object", "required": ["done"], "properties": {"done": {"type": "string"}}},
}
SKILLS: Final = (
    skill("stock.read", "read", timeout_s=TIMEOUT_S, attempts=1, connector={"response": _SHAPE}),
    skill("order.put", "keyed", timeout_s=TIMEOUT_S, attempts=1, connector={"response": _SHAPE}),
    skill(
        "order.pay",
        "non_idempotent",
        timeout_s=TIMEOUT_S,
        connector={"response": _SHAPE},
        reconcile={
            "lookup": {"endpoint": "${UPSTREAM}", "path": "/known/{call_id}"},
            "happened": {"pointer": "/known", "equals": True},
            "did_not_happen": {"pointer": "/known", "equals": False},
        },
    ),
    skill("order.find", "read", timeout_s=5.0),
)
_COMMON: Final = {
    "instructions": "Do what is asked.",
    "skills": [str(document["name"]) for document in SKILLS],
    "limits": {"steps": 40, "calls": 20, "seconds": 300},
}
AGENTS: Final = (
    {"name": "plain", **_COMMON, "on_failure": {"*": {"retries": 0}}},
    {"name": "careful", **_COMMON, "on_failure": {"*": {"retries": 2, "backoff_s": 0.2}}},
)


@dataclass
class Books:
    """The upstream: of every hundred requests it fails FAILS, in a drawn order, in three ways."""

    rng: random.Random
    deck: list[str] = field(default_factory=list)
    """What becomes of the requests to come."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each thing was done, by name."""
    known: set[str] = field(default_factory=set)
    """Idempotency keys of what was done."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def _drawn(self) -> str:
        if not self.deck:
            fails = round(100 * FAILS)
            self.deck = [*(WAYS[n % len(WAYS)] for n in range(fails)), *[""] * (100 - fails)]
            self.rng.shuffle(self.deck)
        return self.deck.pop()

    def answer(self, asked: Asked) -> tuple[int, bytes] | None:
        """Answer one request."""
        if asked.path.startswith("/known/"):
            return 200, json.dumps({"known": asked.path.rpartition("/")[2] in self.known}).encode()
        name = str(asked.body.get("name"))
        if asked.path == "/order.find":
            return 200, json.dumps({"done": name if self.done[name] else ""}).encode()
        with self.lock:
            way = self._drawn()
        if way == "refused":
            return 409, b'{"error": "busy"}'
        if way == "late" and asked.path != "/order.pay":
            time.sleep(2 * TIMEOUT_S)  # and nothing comes of it
            return 503, b"{}"
        writes = asked.path != "/stock.read"
        with self.lock:
            if writes and asked.key not in self.known:
                self.done[name] += 1
                self.known.add(asked.key)
        if way == "late":
            time.sleep(2 * TIMEOUT_S)  # done, and the answer comes too late
        return 200, json.dumps({"state": "ok"} if way == "changed" else {"done": name}).encode()


def script(request: dict[str, Any]) -> ScriptedReply | str:
    """Do the one act that is asked for; where its result is not known or not readable, look it up; then say it."""
    messages = request["messages"]
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    act = json.loads(messages[asked]["content"])
    answers = [json.loads(message["content"]) for message in messages[asked:] if message["role"] == "tool"]
    if not answers:
        return ScriptedReply(tool_calls=[ScriptedCall(name=_tool(act["skill"]), arguments={"name": act["name"]})])
    last: Mapping[str, Any] = answers[-1]
    found = (last.get("result") or {}) if isinstance(last.get("result"), Mapping) else {}
    if found.get("done") == act["name"]:
        return f"done: {act['name']}"
    if act["careful"] and len(answers) < 4 and (act["skill"] == "stock.read" or len(answers) > 1):
        # It was not done, so it may be asked for again; a read always may.
        return ScriptedReply(tool_calls=[ScriptedCall(name=_tool(act["skill"]), arguments={"name": act["name"]})])
    if act["careful"] and len(answers) == 1:
        return ScriptedReply(tool_calls=[ScriptedCall(name=_tool("order.find"), arguments={"name": act["name"]})])
    return "It could not be done."


def _tool(name: str) -> str:
    return name.replace(".", "__")


@dataclass(frozen=True)
class Outcome:
    """What came of the tasks of one agent."""

    succeeded: int
    tasks: int
    doubled: int
    """Things that were done more than once."""
    false: int
    """Tasks that said that it was done when it was not, or the other way round."""
    steps: int

    @property
    def share(self) -> float:
        return self.succeeded / self.tasks


async def measure(tasks: int = TASKS, seed: int = 18) -> dict[str, Outcome]:
    """Give the outcome of both agents, each with an upstream that fails anew."""
    found = {}
    for agent in ("plain", "careful"):
        books = Books(random.Random(seed))
        settings = ["harness.retry_base_s=0.1", "harness.queue_poll_s=0.1", "harness.wake_up_grace_s=1"]
        without = ("memoryfs", "memoryfs-upkeep")
        async with running(
            script, books.answer, skills=SKILLS, agents=AGENTS, settings=settings, without=without
        ) as world:
            found[agent] = await _played(world, books, agent, tasks)
    return found


async def _played(world: TaskWorld, books: Books, agent: str, tasks: int) -> Outcome:
    gate = asyncio.Semaphore(AT_ONCE)
    kinds = ["stock.read", "order.put", "order.pay"]

    async def one(client: Client, number: int) -> tuple[bool, bool, int]:
        act = {"skill": kinds[number % 3], "name": f"n{number}", "careful": agent == "careful"}
        async with gate:
            session = await client.sessions.create()
            task = await client.tasks.submit(
                agent, session_id=session.id, input=json.dumps(act), request_id=uuid.uuid4().hex
            )
            task = await client.tasks.wait(task.id, timeout_s=120)
        said = task.output == f"done: n{number}"
        false = said and act["skill"] != "stock.read" and not books.done[f"n{number}"]
        return said, false, task.step_count

    async with world.client("u-fail") as client:
        rows = await asyncio.gather(*(one(client, number) for number in range(tasks)))
    return Outcome(
        succeeded=sum(said for said, _, _ in rows),
        tasks=tasks,
        doubled=sum(times > 1 for times in books.done.values()),
        false=sum(false for _, false, _ in rows),
        steps=sum(steps for _, _, steps in rows),
    )
