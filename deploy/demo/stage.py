"""The stage of the demo: the running deployment, who speaks in it, and what was checked."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from business import Business
from factory import PostOffice
from memoryos_sdk import Client, connect
from memoryos_sdk.tasks import Step, Task
from rich.console import Console
from rich.markup import escape

MOS: Final = str(Path(sys.executable).with_name("mos"))
WAIT_S: Final = 90.0
TENANT: Final = "acme"
EPISODIC: Final = f"/tenants/{TENANT}/memory/episodic"


class SceneFailed(Exception):
    """Something is not as the scene says it must be."""


@dataclass
class Stage:
    """What every scene needs."""

    data: Path
    business: Business
    post: PostOffice
    console: Console
    wait_s: float = WAIT_S
    """How long a task may take."""
    tokens: dict[str, str] = field(default_factory=dict)
    clients: dict[str, Client] = field(default_factory=dict)
    checks: int = 0

    async def mos(self, *arguments: str) -> str:
        """Run the command line as a person would, and give what it prints."""
        process = await asyncio.create_subprocess_exec(
            MOS, *arguments, "--data", str(self.data), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        if process.returncode:
            raise SceneFailed(f"mos {' '.join(arguments)} ended with {process.returncode}: {err.decode()[-800:]}")
        return out.decode()

    async def mos_json(self, *arguments: str) -> Any:
        """Run the command line and read what it prints as JSON."""
        return json.loads(await self.mos(*arguments, "--json"))

    async def client(self, user: str, *, roles: tuple[str, ...] = ("user",), groups: tuple[str, ...] = ()) -> Client:
        """Give a client that speaks for a user."""
        if user not in self.clients:
            options = [part for role in roles for part in ("--role", role)]
            options += [part for group in groups for part in ("--group", group)]
            token = (await self.mos("token", "--tenant", TENANT, "--user", user, *options)).strip()
            addresses = json.loads((self.data / "run" / "addresses.json").read_text(encoding="utf-8"))
            self.tokens[user] = token
            self.clients[user] = connect(token=token, **addresses)
        return self.clients[user]

    async def ask(self, user: str, question: str) -> tuple[Task, list[Step]]:
        """Put a question to the assistant in a new session; give the ended task and its steps."""
        task = await self.submit(user, question)
        return await self.ended(user, task.id)

    async def submit(self, user: str, question: str, *, session_id: str = "") -> Task:
        """Put a question to the assistant, in a new session unless one is given, and leave."""
        client = await self.client(user)
        where = "same session" if session_id else "new session"
        session_id = session_id or (await client.sessions.create()).id
        self.console.print(f"  [bold]{user}[/] ({where}): {escape(question)}")
        return await client.tasks.submit("assistant", session_id=session_id, input=question)

    async def ended(self, user: str, task_id: str) -> tuple[Task, list[Step]]:
        """Give a task once it has ended, with its steps."""
        client = await self.client(user)
        task = await client.tasks.wait(task_id, timeout_s=self.wait_s)
        steps = [step async for step in client.tasks.steps(task_id)]
        for step in steps:
            found = f" → {len(step.item_ids)} items" if step.kind == "memory_read" else ""
            self.console.print(f"    [dim]{step.sequence}. {step.kind} {step.target} {step.state}{found}[/]")
        self.console.print(f"  [bold]assistant[/]: {escape(task.output or task.error_message)}", highlight=False)
        return task, steps

    def check(self, holds: object, sentence: str) -> None:
        """State a fact of the scene, or end it."""
        if not holds:
            raise SceneFailed(sentence)
        self.checks += 1
        self.console.print(f"  [green]✓[/] {escape(sentence)}", highlight=False)

    async def until(self, condition: Callable[[], Awaitable[Any]], sentence: str) -> Any:
        """Give the first true answer of `condition`, asked again every 50 ms."""
        end = time.monotonic() + self.wait_s
        while time.monotonic() < end:
            answer = await condition()
            if answer:
                return answer
            await asyncio.sleep(0.05)
        raise SceneFailed(f"{sentence}: not within {self.wait_s:g} s")

    async def close(self) -> None:
        """Close what the scenes opened."""
        for client in self.clients.values():
            await client.close()
