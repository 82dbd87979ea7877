"""One deployment of everything, with the demo's business and agent, for tests that drive it as users do."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from memoryos_models.scripted import ScriptedServer
from memoryos_sdk import Client, connect
from memoryos_testing.stack import Stack, running_stack

DEMO = Path(__file__).parents[2] / "deploy" / "demo"
sys.path.insert(0, str(DEMO))

import factory  # noqa: E402
from business import Books, Business  # noqa: E402
from model import script  # noqa: E402


@dataclass
class World:
    """The deployment, the business behind it, and who speaks."""

    stack: Stack
    business: Business
    clients: dict[tuple[str, str], Client]
    model: ScriptedServer

    def client(self, user: str, *, tenant: str = "acme", **token: Any) -> Client:
        """Give a client that speaks for a user."""
        key = (tenant, user)
        if key not in self.clients:
            self.clients[key] = connect(token=self.stack.token(tenant, user, **token), **self.stack.addresses)
        return self.clients[key]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    agents = tmp_path_factory.mktemp("agents")
    for folder in (DEMO / "agents", Path(__file__).parent / "agents"):
        shutil.copytree(folder, agents, dirs_exist_ok=True)
    with factory.running(Books.draw(random.Random(7))) as outside, ScriptedServer(script) as model:
        settings = [f"models.chat_url={model.base_url}", "models.chat_model=scripted", *outside.settings()]
        settings.append(f"harness.agents_dir={agents}")
        async with running_stack(settings=settings) as stack:
            world = World(stack, outside.business, {}, model)
            yield world
            for client in world.clients.values():
                await client.close()


@pytest.fixture(scope="session")
def owned() -> dict[str, str]:
    """What u-owner has, by kind; filled by the first test that asks for it."""
    return {}
