"""What a small window puts away is found in working memory by the task itself, and is gone with the task."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from memoryos_models.scripted import ScriptedCall, ScriptedReply
from memoryos_sdk import Client
from memoryos_sdk.errors import NotFound

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
READS = 30


def reader(customers: list[str]) -> Any:
    """Reads the customers in turn, then looks for the first one in memory."""

    def script(request: dict[str, Any]) -> ScriptedReply | str:
        ids = [m["tool_call_id"] for m in request["messages"] if m["role"] == "tool"]
        done = max((int(name.removeprefix("read")) for name in ids if name.startswith("read")), default=0)
        if "look" in ids:
            return str(request["messages"][-1]["content"])
        if done < len(customers):
            arguments = {"customer_id": customers[done]}
            return ScriptedReply(
                tool_calls=[ScriptedCall(name="crm__customer", arguments=arguments, id=f"read{done + 1}")]
            )
        look = ScriptedCall(name="memory__read", arguments={"query": f"customer {customers[0]}"}, id="look")
        return ScriptedReply(tool_calls=[look])

    return script


async def test_what_was_put_away_is_found_by_the_task_and_gone_with_it(world: World) -> None:
    books = world.business.books
    seller = next(iter(books.customers.values()))["seller"]
    customers = [name for name, kept in books.customers.items() if kept["seller"] == seller]
    customers = (customers * READS)[:READS]
    before, world.model.script = world.model.script, reader(customers)
    world.business.login.keys_file = world.stack.folder / "keys" / "jwks.json"
    client = world.client(seller)
    try:
        session = await client.sessions.create()
        task = await client.tasks.submit("forgetful", session_id=session.id, input="read them")
        task = await client.tasks.wait(task.id)
    finally:
        world.model.script = before
    assert task.state == "succeeded", (task.error_code, task.error_message)
    steps = [step async for step in client.tasks.steps(task.id)]
    pages = [step for step in steps if step.kind == "page_out"]
    assert pages
    assert all(page.state == "done" and page.item_ids for page in pages)
    found = json.loads(task.output)
    put_away = [hit for hit in found["result"]["hits"] if f"/working/{seller}/{task.id}" in hit["path"]]
    assert put_away
    assert customers[0] in json.dumps(put_away)
    for item_id in [item_id for page in pages for item_id in page.item_ids]:
        await gone(client, item_id)


async def gone(client: Client, item_id: str) -> None:
    """Return when an item is not there any more: the binding ends right after its task."""
    async with asyncio.timeout(30):
        with suppress(NotFound):
            while await client.memory.get(item_id):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
