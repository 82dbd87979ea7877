"""Two reviewers, two gateways, one approval: at most one effect, and never a wrong one (I4)."""

import asyncio

import grpc
import pytest
from memoryos.policy.v1 import reviews_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb

from .upstream import Upstream
from .world import Caller, World, refused

pytestmark = pytest.mark.integration
ROUNDS = 6


async def says(who: Caller, review_id: str, verdict: int) -> bool:
    """Whether the reviewer was heard."""
    try:
        await who.approve(review_id, verdict)
    except grpc.aio.AioRpcError as error:
        if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
            raise
        return False
    return True


async def test_reviewers_and_gateways_at_once(world: World, own_world: World, upstream: Upstream):
    """Whoever is first, the call is made once where it was approved, and never where it was not."""
    async with own_world.gateway():
        for number in range(ROUNDS):
            name, request = f"O-{number}", f"r{number}"
            callers = [world.caller(service="harness"), own_world.caller(service="harness")]
            parked = await callers[0].call("refund.create", request, name=name, amount=900)
            second = reviews_pb2.VERDICT_APPROVE if number % 2 else reviews_pb2.VERDICT_DENY
            heard = asyncio.gather(
                says(world.reviewer("boss"), parked.review_id, reviews_pb2.VERDICT_APPROVE),
                says(world.reviewer("chief"), parked.review_id, second),
            )
            await asyncio.gather(*(one.call("refund.create", request, name=name, amount=900) for one in callers * 2))
            approved, denied = await heard
            ends = await asyncio.gather(
                *(one.call("refund.create", request, name=name, amount=900) for one in callers * 2)
            )
            assert all(end == ends[0] for end in ends)
            if second == reviews_pb2.VERDICT_DENY and denied:
                assert not approved
                assert (ends[0].state, upstream.effects[name]) == (pb.CALL_STATE_DENIED, 0)
            else:
                assert (ends[0].state, upstream.effects[name]) == (pb.CALL_STATE_SUCCEEDED, 1)


async def test_an_approval_that_is_said_again_is_used_once(world: World, own_world: World, upstream: Upstream):
    agent = world.caller(service="harness")
    parked = await agent.call("refund.create", name="O-1", amount=900)
    async with own_world.gateway():
        for _ in range(3):
            await says(world.reviewer(), parked.review_id, reviews_pb2.VERDICT_APPROVE)
            done = await own_world.caller(service="harness").call("refund.create", name="O-1", amount=900)
            assert await agent.call("refund.create", name="O-1", amount=900) == done
    assert (done.state, upstream.effects["O-1"]) == (pb.CALL_STATE_SUCCEEDED, 1)
    other = await agent.call("refund.create", "r2", name="O-1", amount=900)
    assert other.state == pb.CALL_STATE_PARKED, "another request needs another approval"
    async with refused("CALL_DIGEST_MISMATCH"):
        await agent.call("refund.create", name="O-1", amount=901)
    assert upstream.effects["O-1"] == 1


async def test_an_approved_call_of_a_skill_that_is_gone_is_not_made(world: World, own_world: World, upstream: Upstream):
    agent = world.caller(service="harness")
    parked = await agent.call("refund.create", name="O-1", amount=900)
    await world.reviewer().approve(parked.review_id)
    without = {**world.config["tool-gateway"], "skill_dirs": []}
    async with own_world.gateway(**{"tool-gateway": without}):
        ended = await own_world.caller(service="harness").call("refund.create", name="O-1", amount=900)
    assert (ended.state, ended.error_code) == (pb.CALL_STATE_DENIED, "definition_changed")
    assert (await agent.call("refund.create", name="O-1", amount=900)).state == pb.CALL_STATE_DENIED
    assert upstream.effects["O-1"] == 0


async def test_a_withdrawal_and_an_approval_at_once(world: World, own_world: World, upstream: Upstream):
    async with own_world.gateway():
        for number in range(ROUNDS):
            name, request = f"W-{number}", f"w{number}"
            mine = world.caller()
            parked = await mine.call("refund.create", request, name=name, amount=900)
            await world.reviewer().approve(parked.review_id)
            cancel = mine.gateway.CancelCall(pb.CancelCallRequest(id=parked.id), metadata=mine.metadata, timeout=30)
            own = own_world.caller().call("refund.create", request, name=name, amount=900)
            withdrawn, _ = await asyncio.gather(cancel, own)
            sent = upstream.effects[name]
            assert sent == (1 if withdrawn.proof == pb.CANCEL_PROOF_SENT else 0)
            assert (await mine.get(parked.id)).state == (pb.CALL_STATE_SUCCEEDED if sent else pb.CALL_STATE_CANCELLED)
