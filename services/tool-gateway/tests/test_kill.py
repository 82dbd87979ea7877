"""kill -9 of the gateway at every crash point of a call: the effect is counted, and the row says the truth."""

import asyncio
import signal
from asyncio.subprocess import Process

import grpc
import pytest
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb
from memoryos_core.crashpoints import CRASH_POINTS

from .bench import Bench
from .test_kill_obliged import POINTS
from .upstream import Upstream
from .world import World

pytestmark = [pytest.mark.integration, pytest.mark.chaos]
PENDING = (pb.CALL_STATE_INTENDED, pb.CALL_STATE_DISPATCHED)
SETTLED_S_MAX = 20.0

# Point → what is true after a restart, for a call that may not be repeated: (state, effects).
ONCE = {
    "gateway.call.before_intent": (pb.CALL_STATE_SUCCEEDED, 1),
    "gateway.call.after_dispatch": (pb.CALL_STATE_UNKNOWN, 0),
    "gateway.call.after_effect": (pb.CALL_STATE_UNKNOWN, 1),
    "gateway.call.after_result": (pb.CALL_STATE_SUCCEEDED, 1),
}
# And for one that may: it succeeds, with this many effects.
AGAIN = {
    "gateway.call.before_intent": 1,
    "gateway.call.after_dispatch": 1,
    "gateway.call.after_effect": 2,
    "gateway.call.after_result": 1,
}
CONSUMING = "gateway.call.while_consuming_approval"
INTENT = "gateway.call.after_intent"


def test_every_crash_point_of_the_gateway_is_killed_at():
    assert {name for name in CRASH_POINTS if name.startswith("gateway.")} == {*ONCE, CONSUMING, INTENT} | POINTS


async def settled(world: World, skill: str, **arguments: object) -> pb.Call:
    """Ask again at the surviving replica, as the harness does, until the call has ended."""
    caller = world.caller(service="harness")
    async with asyncio.timeout(SETTLED_S_MAX):
        while (call := await caller.call(skill, **arguments)).state in PENDING:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    return call


async def dies(process: Process, world: World, skill: str, **arguments: object) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await world.caller(service="harness").call(skill, **arguments)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert await asyncio.wait_for(process.wait(), 10) == -signal.SIGKILL


@pytest.mark.parametrize("point", ONCE)
async def test_a_call_that_may_not_be_repeated_is_made_at_most_once(
    world: World, own_world: World, upstream: Upstream, bench: Bench, point: str
):
    async with own_world.gateway(crash=point) as process:
        await dies(process, own_world, "refund.create", name="O-1", amount=10)
    call = await settled(world, "refund.create", name="O-1", amount=10)
    assert (call.state, upstream.effects["O-1"]) == ONCE[point]
    assert await settled(world, "refund.create", name="O-1", amount=10) == call
    await ends_once_in_the_audit(bench, world, call)


@pytest.mark.parametrize("point", AGAIN)
async def test_a_call_that_may_be_repeated_is_made_at_least_once(
    world: World, own_world: World, upstream: Upstream, point: str
):
    async with own_world.gateway(crash=point) as process:
        await dies(process, own_world, "memory.write", name="m")
    call = await settled(world, "memory.write", name="m")
    assert (call.state, upstream.effects["m"]) == (pb.CALL_STATE_SUCCEEDED, AGAIN[point])


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (CONSUMING, (pb.CALL_STATE_SUCCEEDED, 1)),
        ("gateway.call.after_dispatch", (pb.CALL_STATE_UNKNOWN, 0)),
        ("gateway.call.after_effect", (pb.CALL_STATE_UNKNOWN, 1)),
    ],
)
async def test_an_approved_call_is_made_at_most_once(
    world: World, own_world: World, upstream: Upstream, bench: Bench, point: str, expected: tuple[int, int]
):
    """H4: killed while the approval is used up, and after."""
    async with own_world.gateway(crash=point) as process:
        parked = await own_world.caller(service="harness").call("refund.create", name="O-1", amount=900)
        assert parked.state == pb.CALL_STATE_PARKED
        await world.reviewer().approve(parked.review_id)
        await dies(process, own_world, "refund.create", name="O-1", amount=900)
    call = await settled(world, "refund.create", name="O-1", amount=900)
    assert (call.state, upstream.effects["O-1"]) == expected
    assert await settled(world, "refund.create", name="O-1", amount=900) == call
    await ends_once_in_the_audit(bench, world, call)


async def test_a_call_that_was_journaled_and_no_more_goes_on(world: World, own_world: World, upstream: Upstream):
    """It waits, and nobody has been told of it: its review is opened by whoever asks again."""
    async with own_world.gateway(crash=INTENT) as process:
        await dies(process, own_world, "refund.create", name="O-1", amount=900)
    parked = await settled(world, "refund.create", name="O-1", amount=900)
    assert parked.state == pb.CALL_STATE_PARKED
    await world.reviewer().approve(parked.review_id)
    assert (await settled(world, "refund.create", name="O-1", amount=900)).state == pb.CALL_STATE_SUCCEEDED
    assert upstream.effects["O-1"] == 1


async def test_a_gateway_killed_while_a_call_waits_is_replaced(world: World, own_world: World, upstream: Upstream):
    async with own_world.gateway() as process:
        parked = await own_world.caller(service="harness").call("refund.create", name="O-1", amount=900)
        process.kill()
        await process.wait()
    await world.reviewer().approve(parked.review_id)
    assert (await settled(world, "refund.create", name="O-1", amount=900)).state == pb.CALL_STATE_SUCCEEDED
    assert upstream.effects["O-1"] == 1


async def test_a_terminated_gateway_ends_what_it_has_sent(own_world: World, upstream: Upstream):
    """SIGTERM while the upstream works: the result is journaled before the process ends."""
    async with own_world.gateway() as process:
        slow = asyncio.create_task(own_world.caller().call("crm.customer", name="c"))
        await asyncio.wait_for(upstream.arrived.wait(), 10)
        process.terminate()
        upstream.gate.set()
        assert (await slow).state == pb.CALL_STATE_SUCCEEDED
        assert await asyncio.wait_for(process.wait(), 15) == 0


async def ends_once_in_the_audit(bench: Bench, world: World, call: pb.Call) -> None:
    rows = await bench.rows("SELECT kind, outcome FROM core.audit WHERE call_id = %s", call.id, tenant=world.tenant)
    ends = [row["outcome"] for row in rows if row["kind"] == "TOOL_RESULT"]
    assert ends == ["OK" if call.state == pb.CALL_STATE_SUCCEEDED else "UNKNOWN"]
