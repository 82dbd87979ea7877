"""ListCalls, WatchCall, CancelCall and ReconcileCall as callers see them: roles, proofs, and what is left out."""

import asyncio
from typing import Any

import pytest
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb

from .bench import Bench
from .upstream import Upstream
from .world import Caller, World, refused

pytestmark = pytest.mark.integration


async def listed(caller: Caller, **wanted: Any) -> list[pb.Call]:
    answer = await caller.gateway.ListCalls(pb.ListCallsRequest(**wanted), metadata=caller.metadata, timeout=30)
    return list(answer.calls)


async def cancel(caller: Caller, **which: str) -> pb.CancelCallResponse:
    return await caller.gateway.CancelCall(pb.CancelCallRequest(**which), metadata=caller.metadata, timeout=30)


async def reconcile(caller: Caller, call_id: str, outcome: int = 0, comment: str = "") -> pb.Call:
    request = pb.ReconcileCallRequest(id=call_id, outcome=outcome, comment=comment)
    return (await caller.gateway.ReconcileCall(request, metadata=caller.metadata, timeout=30)).call


async def test_lists_have_no_contents_and_filters(world: World, upstream: Upstream):
    agent = world.caller(session_id="ses_list", task_id="task_9")
    await agent.call("mes.takt_time", "r1", name="A")
    await agent.call("refund.create", "r2", name="O-1", amount=900)
    found = await listed(agent)
    assert [call.skill for call in found] == ["refund.create", "mes.takt_time"]
    assert all(call.result_json == b"" for call in found)
    assert [c.skill for c in await listed(agent, state=pb.CALL_STATE_PARKED)] == ["refund.create"]
    assert len(await listed(agent, skill="mes.takt_time", session_id="ses_list", task_id="task_9")) == 1
    assert await listed(agent, session_id="ses_other") == []
    assert await listed(world.caller("u2")) == []
    assert len(await listed(world.auditor())) == 2
    assert len(await listed(world.caller("op", roles=("operator",), chain=()))) == 2


async def test_a_watcher_sees_a_call_to_its_end(world: World, upstream: Upstream):
    agent = world.caller()
    parked = await agent.call("refund.create", name="O-1", amount=900)
    stream = agent.gateway.WatchCall(pb.WatchCallRequest(id=parked.id), metadata=agent.metadata, timeout=30)
    events = aiter(stream)
    first = await anext(events)
    assert first.call.state == pb.CALL_STATE_PARKED
    await world.reviewer().approve(parked.review_id)
    await agent.call("refund.create", name="O-1", amount=900)
    async with asyncio.timeout(20):
        states = [event.call.state async for event in events]
    assert states[-1] == pb.CALL_STATE_SUCCEEDED
    async with refused("CALL_NOT_FOUND"):
        other = world.caller("u2")
        async for _ in other.gateway.WatchCall(pb.WatchCallRequest(id=parked.id), metadata=other.metadata, timeout=30):
            pass


async def test_a_call_is_withdrawn_with_proof(world: World, upstream: Upstream):
    agent = world.caller()
    parked = await agent.call("refund.create", name="O-1", amount=900)
    for stranger in (world.caller("u2"), world.caller(chain=("other",)), world.caller(tenant="elsewhere")):
        async with refused("CALL_NOT_FOUND"):
            await cancel(stranger, id=parked.id)
    for wrong in ({}, {"id": parked.id, "call_request_id": "r1"}):
        async with refused("INVALID_FIELD"):
            await cancel(agent, **wrong)
    assert (await cancel(agent, id=parked.id)).proof == pb.CANCEL_PROOF_NOT_SENT
    assert (await cancel(agent, call_request_id="never-came")).proof == pb.CANCEL_PROOF_NOT_SENT
    late = await agent.call("refund.create", "never-came", name="O-2", amount=10)
    assert (late.state, late.error_code) == (pb.CALL_STATE_CANCELLED, "cancelled")
    theirs = await world.caller("u2").call("refund.create", "never-came", name="O-3", amount=10)
    assert theirs.state == pb.CALL_STATE_SUCCEEDED, "another issuer's request of the same name is another call"
    done = await agent.call("mes.takt_time", "r3", name="A")
    assert (await cancel(agent, id=done.id)).proof == pb.CANCEL_PROOF_SENT
    assert upstream.effects == {"O-3": 1, "A": 1}


async def test_who_may_settle_and_how(world: World, upstream: Upstream, bench: Bench):
    agent, operator = world.caller(), world.caller("op", roles=("operator",), chain=())
    call = await agent.call("obliged.drop", name="a")
    assert call.state == pb.CALL_STATE_UNKNOWN
    async with bench.database.unscoped() as tx:  # the sweeper is not to be first
        await tx.execute("UPDATE toolgateway.doubts SET due_time = clock_timestamp() + interval '1 hour'")
    async with refused("ROLE_REQUIRED"):
        await reconcile(agent, call.id, pb.RECONCILE_OUTCOME_HAPPENED, "trust me")
    for decider in (operator, world.caller("ta", roles=("tenant-admin",), chain=())):
        async with refused("INVALID_FIELD"):
            await reconcile(decider, call.id, pb.RECONCILE_OUTCOME_HAPPENED)
    async with refused("CALL_NOT_FOUND"):
        await reconcile(world.caller("u2"), call.id)
    async with refused("CALL_NOT_FOUND"):
        await reconcile(world.caller("op", roles=("operator",), chain=(), tenant="elsewhere"), call.id)
    await bench.rows("UPDATE toolgateway.calls SET settle_time = clock_timestamp() RETURNING id", tenant=world.tenant)
    settled = await reconcile(operator, call.id, pb.RECONCILE_OUTCOME_HAPPENED, "seen in their books")
    assert (settled.state, settled.result_json) == (pb.CALL_STATE_SUCCEEDED, b"")
    assert (await agent.get(call.id)).result_json == b'{"reconciled":true}'
    async with refused("CALL_NOT_UNKNOWN"):
        await reconcile(operator, call.id)


async def test_the_whole_of_a_cut_result_is_its_users(world: World, upstream: Upstream):
    agent = world.caller()
    upstream.says = b'{"note": "13812345678 ' + b"x" * 5000 + b'"}'
    call = await agent.call("obliged.say", name="a")
    assert (call.state, len(call.result_json) <= 2000) == (pb.CALL_STATE_SUCCEEDED, True)
    request = pb.GetCallRequest(id=call.id, full_result=True)
    mine = await agent.gateway.GetCall(request, metadata=agent.metadata, timeout=30)
    assert (len(mine.full_result), b"13812345678" in mine.full_result) == (call.full_result_bytes, False)
    auditor = world.auditor()
    theirs = await auditor.gateway.GetCall(request, metadata=auditor.metadata, timeout=30)
    assert (theirs.full_result, theirs.call.result_json) == (b"", b"")
