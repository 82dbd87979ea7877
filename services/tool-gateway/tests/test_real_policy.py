"""The gateway as a process, with the real policy service and OPA."""

import json

import pytest
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb

from .upstream import Upstream
from .world import World, refused

pytestmark = pytest.mark.integration


async def test_allow_deny_and_review_once(world: World, upstream: Upstream):
    agent = world.caller(service="harness")
    read = await agent.call("mes.takt_time", "r1", name="A")
    assert (read.state, json.loads(read.result_json)) == (pb.CALL_STATE_SUCCEEDED, {"done": "A", "times": 1})

    upstream.tickets = {"T-1": {"environment": "production"}, "T-2": {"environment": "test"}}
    denied = await agent.call("ticket.delete", "r2", ticket_id="T-1")
    assert (denied.state, denied.error_code) == (pb.CALL_STATE_DENIED, "denied")
    assert denied.agent_message == "This action is not permitted."
    assert "ticket_is_production" in await world.auditor().reasons(denied.decision_id)
    test_ticket = await agent.call("ticket.delete", "r3", ticket_id="T-2")
    assert test_ticket.state == pb.CALL_STATE_SUCCEEDED
    assert upstream.effects["T-1"] == 0

    parked = await agent.call("refund.create", "r4", name="O-1", amount=900)
    assert parked.state == pb.CALL_STATE_PARKED
    assert parked.review_id.startswith("rev_")
    assert (await agent.call("refund.create", "r4", name="O-1", amount=900)).state == pb.CALL_STATE_PARKED
    await world.reviewer().approve(parked.review_id)
    done = await agent.call("refund.create", "r4", name="O-1", amount=900)
    assert (done.state, done.review_id) == (pb.CALL_STATE_SUCCEEDED, parked.review_id)
    assert await agent.call("refund.create", "r4", name="O-1", amount=900) == done
    assert upstream.effects["O-1"] == 1


async def test_refusals_have_their_reasons(world: World):
    agent = world.caller()
    async with refused("SKILL_NOT_FOUND"):
        await agent.call("no.such_skill", name="A")
    async with refused("ARGUMENTS_INVALID"):
        await agent.call("mes.takt_time", name="A", other=1)
    await agent.call("mes.takt_time", "r1", name="A")
    async with refused("CALL_DIGEST_MISMATCH"):
        await agent.call("mes.takt_time", "r1", name="B")
