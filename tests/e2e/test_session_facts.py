"""Memory washes nothing off: what one session was told by strangers, policy knows of the next that reads it."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from typing import Any

import pytest
from memoryos_sdk import connect
from memoryos_sdk.decisions import DecisionFilter

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
USER = "u-facts"
PLACE = f"/tenants/acme/memory/episodic/{USER}"
_numbers = itertools.count(1)


@asynccontextmanager
async def session_of(world: World, user: str = USER, *, tenant: str = "acme", name: str = ""):
    """Give an agent of a user in a session of its own, or in that one."""
    claims = {"chain": ("helper",), "session_id": name or f"ses_facts_{next(_numbers)}"}
    async with connect(token=world.stack.token(tenant, user, **claims), **world.stack.addresses) as client:
        yield client


async def deletion(world: World, client: Any) -> tuple[str, set[str]]:
    """Let an agent delete a test ticket; give what became of the call, and why."""
    ticket = f"TCK-FACTS-{next(_numbers)}"
    world.business.books.tickets[ticket] = {"environment": "test", "title": "delete all tickets"}
    call = await client.tools.call("ticket.delete", {"ticket_id": ticket})
    auditor = world.client("a-facts", roles=("auditor",))
    found = await auditor.decisions.list(DecisionFilter(call_id=call.id)).all()
    assert (ticket in world.business.books.tickets) is (call.state != "succeeded"), call
    return call.state, {reason.code for one in found for reason in one.reasons if reason.code.startswith("untrusted")}


async def told_by_a_stranger(world: World) -> tuple[str, str]:
    """Let a session read what a stranger wrote and remember it twice: by the skill, and in memory itself."""
    ticket = f"TCK-FACTS-{next(_numbers)}"
    world.business.books.tickets[ticket] = {"environment": "test", "title": "the maintenance window moves to night"}
    async with session_of(world) as agent:
        assert (await agent.tools.call("ticket.get", {"ticket_id": ticket})).state == "succeeded"
        content = f"Maintenance is at night, says {ticket}"
        wrote = await agent.tools.call("memory.write", {"content": content, "origin": "stated", "path": PLACE})
        meta = {"origin": "stated", "trust": "trusted"}
        direct = await agent.memory.write(PLACE, content=f"{content}, said by the user", meta=meta)
        assert await deletion(world, agent) == ("parked", {"untrusted_destructive"})
    return wrote.result["id"], direct.id


async def test_what_a_stranger_said_is_known_in_every_session_that_reads_it(world: World) -> None:
    by_skill, direct = await told_by_a_stranger(world)
    person = world.client(USER)
    for item_id in (by_skill, direct):
        assert (await person.memory.get(item_id)).trust == "untrusted"

    async with session_of(world) as agent:
        read = await agent.tools.call("memory.read", {"path": PLACE, "query": "maintenance at night"})
        assert {by_skill, direct} & {hit["id"] for hit in read.result["hits"]}
        assert await deletion(world, agent) == ("parked", {"untrusted_destructive"})
    async with session_of(world) as agent:
        assert await agent.memory.read(PLACE, query="maintenance at night")
        assert await deletion(world, agent) == ("parked", {"untrusted_destructive"})
    async with session_of(world) as agent:
        assert (await agent.memory.get(direct)).id == direct
        copied = await agent.memory.write(PLACE, content="Maintenance: at night", meta={"trust": "trusted"})
    async with session_of(world) as agent:
        assert (await agent.memory.get(copied.id)).trust == "untrusted"
        assert await deletion(world, agent) == ("parked", {"untrusted_destructive"})


async def test_what_a_person_wrote_lets_the_session_go_on(world: World) -> None:
    person = world.client("u-facts-note")
    place = "/tenants/acme/memory/episodic/u-facts-note"
    note = await person.memory.write(place, content="Old test tickets may go")
    assert (await person.memory.get(note.id)).trust == "trusted"
    async with session_of(world, "u-facts-note") as agent:
        read = await agent.tools.call("memory.read", {"path": place, "query": "test tickets"})
        assert [hit["id"] for hit in read.result["hits"]] == [note.id]
        assert [hit.item.id for hit in await agent.memory.read(place, query="test tickets")] == [note.id]
        assert await deletion(world, agent) == ("succeeded", set())


async def test_facts_reach_no_other_session_user_or_tenant(world: World) -> None:
    await told_by_a_stranger(world)
    async with session_of(world, name="ses_facts_shared") as agent:
        assert await agent.memory.read(PLACE, query="maintenance at night")
        assert await deletion(world, agent) == ("parked", {"untrusted_destructive"})
    for user, tenant, name in ((USER, "acme", ""), ("u-facts-other", "acme", ""), (USER, "rival", "ses_facts_shared")):
        async with session_of(world, user, tenant=tenant, name=name) as agent:
            assert await deletion(world, agent) == ("succeeded", set()), (user, tenant)
