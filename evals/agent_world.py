"""A deployment with the demo's business behind it, and a scripted model that knows what each case says."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memoryos_models.scripted import ScriptedCall, ScriptedReply, ScriptedServer
from memoryos_sdk import Client, connect
from memoryos_testing.stack import Stack, running_stack

from evals.agent_cases import Case, Person, Reply

ROOT: Final = Path(__file__).parents[1]
DEMO: Final = ROOT / "deploy" / "demo"
CASES: Final = ROOT / "tests" / "evals"
sys.path.insert(0, str(DEMO))

import factory  # noqa: E402
from business import Books  # noqa: E402

_RECALLS: Final = ("recall_memory", "recall_sessions")


@dataclass
class Script:
    """Plays the model of every case, by its question, and remembers what it was shown."""

    replies: dict[str, Sequence[Reply]] = field(default_factory=dict)
    shown: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What the model was sent, by question."""
    _turns: Counter[str] = field(default_factory=Counter)

    def learn(self, cases: Sequence[Case]) -> None:
        """Take up the replies of cases."""
        for case in cases:
            self.replies |= {case.ask: case.model, **case.children}

    def __call__(self, request: dict[str, Any]) -> ScriptedReply | str:
        """Give the next reply to a question; after the last one the last again."""
        messages = request["messages"]
        # What follows the question in the user's place is the harness that asks for something to be mended.
        said = [(n, str(message["content"])) for n, message in enumerate(messages) if message["role"] == "user"]
        asked, question = next((pair for pair in reversed(said) if pair[1] in self.replies), said[-1])
        self.shown[question].append(json.dumps(request, ensure_ascii=False))
        replies = self.replies.get(question, (Reply(say="{recalled}"),)) or (Reply(say="{recalled}"),)
        reply = replies[min(self._turns[question], len(replies) - 1)]
        self._turns[question] += 1
        recalled, results = _answers(messages[asked:])
        text = reply.say.replace("{recalled}", recalled).replace("{results}", results)
        calls = [
            ScriptedCall(name=name.replace(".", "__"), arguments=dict(given) if isinstance(given, Mapping) else given)
            for call in reply.calls
            for name, given in call.items()
        ]
        return ScriptedReply(content=text, tool_calls=calls)


def _answers(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Give what was recalled, with its ids, and what tools said, as the model would read them out."""
    names: dict[str, str] = {}
    recalled: list[str] = []
    results: list[str] = []
    for message in messages:
        names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}
        if message["role"] != "tool":
            continue
        if names.get(message["tool_call_id"]) in _RECALLS:
            items = json.loads(message["content"]).get("items") or []
            recalled += [f"{item['content']} [{item.get('id', '')}]" for item in items]
        else:
            results.append(str(message["content"]))
    return " | ".join(recalled) or "nothing is known", " | ".join(results)


@dataclass
class AgentWorld:
    """What runs, and who speaks."""

    stack: Stack
    outside: factory.Factory
    script: Script
    clients: dict[Person, Client] = field(default_factory=dict)

    def client(self, person: Person) -> Client:
        """Give a client that speaks for a person."""
        if person not in self.clients:
            token = self.stack.token(
                person.tenant, person.user, roles=person.roles, groups=person.groups, clearance=person.clearance
            )
            addresses: dict[str, Any] = dict(self.stack.addresses)
            self.clients[person] = connect(token=token, **addresses)
        return self.clients[person]

    def effects(self) -> Counter[str]:
        """Give how often each thing was really done so far."""
        books = self.outside.business.books
        done = Counter({name: books.counts[name] for name in ("ticket.delete", "refund.create")})
        return done + Counter({"mail": len(self.outside.post.mails), "group": len(books.group_messages)})


@asynccontextmanager
async def running(model_url: str = "", model_name: str = "") -> AsyncIterator[AgentWorld]:
    """Give a world, with the scripted model unless another endpoint is named; it ends with the block."""
    script = Script()
    with factory.running(Books.draw(random.Random(7))) as outside, ScriptedServer(script) as scripted:
        agents = outside.secrets / "agents"
        shutil.copytree(DEMO / "agents", agents)
        shutil.copytree(CASES / "agents", agents, dirs_exist_ok=True)
        settings = [setting for setting in outside.settings() if not setting.startswith("harness.agents_dir=")]
        settings += [
            f"harness.agents_dir={agents}",
            f"models.chat_url={model_url or scripted.base_url}",
            f"models.chat_model={model_name or 'scripted'}",
            "harness.retry_base_s=0.1",
        ]
        async with running_stack(settings=settings) as stack:
            outside.business.login.keys_file = stack.folder / "keys" / "jwks.json"
            world = AgentWorld(stack, outside, script)
            yield world
            for client in world.clients.values():
                await client.close()


def places() -> dict[str, str]:
    """Give what `{…}` in cases stands for: the business is drawn the same every time."""
    books = Books.draw(random.Random(7))
    orders = sorted(books.orders, key=lambda name: float(books.orders[name]["total"]))
    found = {f"ticket.{record['environment']}": name for name, record in books.tickets.items()}
    found |= {f"customer.{record['seller']}": name for name, record in books.customers.items()}
    found |= {f"name.{record['seller']}": str(record["name"]) for record in books.customers.values()}
    found |= {f"takt.{name}": str(record["takt_time_s"]) for name, record in books.lines.items()}
    return found | {"order.small": orders[0], "order.large": orders[-1]}
