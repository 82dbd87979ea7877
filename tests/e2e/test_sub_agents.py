"""A sub-agent reads the CRM as the person who asks (DESIGN §5), on the whole deployment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from business import Books
from memoryos_models.scripted import ScriptedCall, ScriptedReply

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]


def passed_on(request: dict[str, Any]) -> ScriptedReply | str:
    """The dispatcher passes the question on, the reader calls the CRM; both say what came of it."""
    last = request["messages"][-1]
    if last["role"] == "tool":
        return str(last["content"])
    offered = [tool["function"]["name"] for tool in request["tools"]]
    if offered == ["agent__crm-reader"]:
        return ScriptedReply(tool_calls=[ScriptedCall(name=offered[0], arguments={"task": last["content"]})])
    return ScriptedReply(tool_calls=[ScriptedCall(name="crm__customer", arguments={"customer_id": last["content"]})])


@pytest.fixture
def crm(world: World) -> Iterator[Books]:
    """The CRM, whose login trusts the keys of the deployment."""
    before = world.model.script
    world.model.script = passed_on
    world.business.login.keys_file = world.stack.folder / "keys" / "jwks.json"
    world.business.books.crm_asked_by.clear()
    yield world.business.books
    world.model.script = before


async def ask(world: World, user: str, customer: str) -> Any:
    client = world.client(user)
    session = await client.sessions.create()
    task = await client.tasks.submit("dispatcher", session_id=session.id, input=customer)
    return await client.tasks.wait(task.id)


async def test_the_crm_sees_the_person_and_no_service_through_a_sub_agent(world: World, crm: Books) -> None:
    customer, kept = next(iter(crm.customers.items()))
    task = await ask(world, kept["seller"], customer)
    assert kept["name"] in task.output, task
    assert crm.crm_asked_by == [kept["seller"]]
    other = next(found["seller"] for found in crm.customers.values() if found["seller"] != kept["seller"])
    task = await ask(world, other, customer)
    assert kept["name"] not in task.output
    assert crm.crm_asked_by == [kept["seller"], other]  # whoever asks, and never an account of ours


async def test_nobody_reads_the_crm_in_another_persons_name_by_an_agent_of_its_own(world: World, crm: Books) -> None:
    customer, kept = next(iter(crm.customers.items()))
    stranger = world.client("u-stranger")
    token = (await stranger.tokens.exchange("crm-reader", audience=["tool-gateway", "policy"])).access_token
    call = await stranger.as_caller(token).tools.call("crm.customer", {"customer_id": customer})
    assert call.state == "failed", call
    assert crm.crm_asked_by == ["u-stranger"]
    seller = world.client(kept["seller"])
    token = (await seller.tokens.exchange("crm-reader")).access_token
    call = await seller.as_caller(token).tools.call("crm.customer", {"customer_id": customer})
    assert call.result["name"] == kept["name"]
    assert call.actor.agent_chain == ("crm-reader",)
