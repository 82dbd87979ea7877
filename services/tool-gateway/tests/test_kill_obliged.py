"""kill -9 of the gateway while obligations are met, calls are withdrawn, and doubts and notices are settled."""

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import Awaitable
from typing import Any, Final

import grpc
import pytest
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb

from .bench import Bench
from .obliged import SETTLED_S_MAX, all_told
from .upstream import Upstream
from .world import Caller, World, refused

pytestmark = [pytest.mark.integration, pytest.mark.chaos]
LIMITING: Final = "gateway.call.while_limiting"
ENDING: Final = "gateway.call.before_end"
UNSENT: Final = "gateway.call.before_unsent_end"
CANCELLING: Final = "gateway.cancel.before_commit"
ASKED: Final = "gateway.reconcile.after_lookup"
SETTLING: Final = "gateway.reconcile.before_commit"
TOLD: Final = "gateway.notice.after_send"
POINTS: Final = {LIMITING, ENDING, UNSENT, CANCELLING, ASKED, SETTLING, TOLD}


async def dies(process: Process, work: Awaitable[Any]) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert await asyncio.wait_for(process.wait(), 10) == -signal.SIGKILL


async def settled(caller: Caller, skill: str, request_id: str = "r1", **arguments: Any) -> pb.Call:
    async with asyncio.timeout(SETTLED_S_MAX):
        while (call := await caller.call(skill, request_id, **arguments)).state in (  # noqa: ASYNC110
            pb.CALL_STATE_INTENDED, pb.CALL_STATE_DISPATCHED,
        ):  # fmt: skip
            await asyncio.sleep(0.05)
    return call


async def used(bench: Bench, world: World) -> float:
    rows = await bench.rows("SELECT used::float8 AS used FROM toolgateway.rate_windows", tenant=world.tenant)
    return sum(row["used"] for row in rows)


def notices(upstream: Upstream) -> int:
    return sum(request.path == "/say/notice" for request in upstream.requests)


async def test_a_rate_is_taken_once_by_a_call_that_is_sent_once(
    world: World, own_world: World, upstream: Upstream, bench: Bench
):
    async with own_world.gateway(crash=LIMITING) as process:
        await dies(process, own_world.caller(service="harness").call("obliged.do", name="a"))
    assert await used(bench, world) == 0
    call = await settled(world.caller(service="harness"), "obliged.do", name="a")
    assert (call.state, upstream.effects["a"], await used(bench, world)) == (pb.CALL_STATE_SUCCEEDED, 1, 1)
    await all_told(bench, world)


async def test_an_end_that_was_not_committed_is_a_doubt_and_is_told_of(
    world: World, own_world: World, upstream: Upstream, bench: Bench
):
    async with own_world.gateway(crash=ENDING) as process:
        await dies(process, own_world.caller(service="harness").call("obliged.do", name="a", amount=900))
    call = await settled(world.caller(service="harness"), "obliged.do", name="a", amount=900)
    assert (call.state, call.rewritten, upstream.effects["a"]) == (pb.CALL_STATE_UNKNOWN, True, 1)
    assert await used(bench, world) == 1
    facts = await bench.rows("SELECT fact FROM core.session_facts WHERE fact <> 'said'", tenant=world.tenant)
    assert facts == [], "nobody has seen the result"
    await all_told(bench, world)
    assert notices(upstream) >= 1


@pytest.mark.parametrize("point", [UNSENT, "gateway.call.after_intent"])
async def test_a_call_that_is_not_let_through_is_never_sent(
    world: World, own_world: World, upstream: Upstream, bench: Bench, point: str
):
    for number in range(2):
        await world.caller(service="harness").call("obliged.do", f"r{number}", name="a")
    async with own_world.gateway(crash=point) as process:
        await dies(process, own_world.caller(service="harness").call("obliged.do", "r2", name="a"))
    call = await settled(world.caller(service="harness"), "obliged.do", "r2", name="a")
    assert (call.state, call.error_code, call.dispatches) == (pb.CALL_STATE_FAILED, "rate_limited", 0)
    assert (upstream.effects["a"], await used(bench, world)) == (2, 2)
    await all_told(bench, world)
    assert notices(upstream) >= 3


async def test_a_withdrawal_is_whole_or_has_not_been(world: World, own_world: World, upstream: Upstream):
    caller = world.caller()
    parked = await caller.call("obliged.do", name="a", note="look")
    assert parked.state == pb.CALL_STATE_PARKED
    async with own_world.gateway(crash=CANCELLING) as process:
        own = own_world.caller()
        request = pb.CancelCallRequest(id=parked.id)
        await dies(process, own.gateway.CancelCall(request, metadata=own.metadata, wait_for_ready=True, timeout=30))
    assert (await caller.get(parked.id)).state == pb.CALL_STATE_PARKED
    answer = await caller.gateway.CancelCall(pb.CancelCallRequest(id=parked.id), metadata=caller.metadata, timeout=30)
    assert (answer.proof, answer.call.state) == (pb.CANCEL_PROOF_NOT_SENT, pb.CALL_STATE_CANCELLED)
    await world.reviewer().approve(parked.review_id)
    assert (await caller.call("obliged.do", name="a", note="look")).state == pb.CALL_STATE_CANCELLED
    assert upstream.effects["a"] == 0


async def test_a_refusal_of_what_has_not_come_is_whole_or_has_not_been(
    world: World, own_world: World, upstream: Upstream, bench: Bench
):
    async with own_world.gateway(crash=CANCELLING) as process:
        own = own_world.caller()
        request = pb.CancelCallRequest(call_request_id="r1")
        await dies(process, own.gateway.CancelCall(request, metadata=own.metadata, wait_for_ready=True, timeout=30))
    assert (await world.caller().call("obliged.do", "r1", name="a")).state == pb.CALL_STATE_SUCCEEDED
    assert upstream.effects["a"] == 1
    await all_told(bench, world)


@pytest.mark.parametrize("point", [ASKED, SETTLING])
async def test_a_doubt_is_settled_once(world: World, own_world: World, upstream: Upstream, bench: Bench, point: str):
    caller = world.caller()
    call = await settled(caller, "obliged.drop", name="a")
    assert (call.state, upstream.effects["a"]) == (pb.CALL_STATE_UNKNOWN, 1)
    request = pb.ReconcileCallRequest(id=call.id)
    answer = await caller.gateway.ReconcileCall(request, metadata=caller.metadata, timeout=30)
    assert answer.call.state == pb.CALL_STATE_UNKNOWN, "it could still happen"
    async with bench.database.unscoped() as tx:  # the sweeper of the other gateway is not to be first
        await tx.execute("UPDATE toolgateway.doubts SET due_time = clock_timestamp() + interval '1 hour'")
    async with own_world.gateway(crash=point) as process:
        await bench.rows(
            "UPDATE toolgateway.calls SET settle_time = clock_timestamp() RETURNING id", tenant=world.tenant
        )
        own = own_world.caller()
        await dies(process, own.gateway.ReconcileCall(request, metadata=own.metadata, wait_for_ready=True, timeout=30))
    answer = await caller.gateway.ReconcileCall(request, metadata=caller.metadata, timeout=30)
    assert answer.call.state == pb.CALL_STATE_SUCCEEDED
    async with refused("CALL_NOT_UNKNOWN"):
        await caller.gateway.ReconcileCall(request, metadata=caller.metadata, timeout=30)
    assert upstream.effects["a"] == 1
    ends = await bench.rows(
        "SELECT outcome FROM core.audit WHERE call_id = %s AND kind = 'TOOL_RESULT' ORDER BY seq",
        call.id, tenant=world.tenant,
    )  # fmt: skip
    assert [row["outcome"] for row in ends] == ["UNKNOWN", "OK"]
    await all_told(bench, world)


async def test_a_notice_comes_at_least_once(world: World, own_world: World, upstream: Upstream, bench: Bench):
    async with own_world.gateway(crash=TOLD) as process:
        made = 0
        while process.returncode is None and made < 50:  # either gateway may send what is due
            made += 1
            caller = world.caller(f"u{made}")
            assert (await caller.call("obliged.do", name="a")).state == pb.CALL_STATE_SUCCEEDED
            await asyncio.sleep(0.05)
        assert await asyncio.wait_for(process.wait(), 10) == -signal.SIGKILL
    await all_told(bench, world)
    assert notices(upstream) >= made
