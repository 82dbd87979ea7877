"""Calls of the journal: read, listed, followed, withdrawn, settled; and skills that are searched."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from memoryos.toolgateway.v1 import tool_gateway_pb2
from memoryos_sdk import Client, FailedPrecondition, InvalidArgument, NotFound, Unavailable, sync

from .conftest import SHORT, Services, status_of

PARKED, DISPATCHED = tool_gateway_pb2.CALL_STATE_PARKED, tool_gateway_pb2.CALL_STATE_DISPATCHED
UNKNOWN, SUCCEEDED = tool_gateway_pb2.CALL_STATE_UNKNOWN, tool_gateway_pb2.CALL_STATE_SUCCEEDED


async def lost(context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")


async def test_the_whole_result_comes_when_it_is_asked_for(client: Client, services: Services) -> None:
    call = await client.tools.get_call("call_1")
    assert (call.result, call.full_result, call.full_result_bytes, call.full_result_sha256) == (
        {"truncated": True}, None, 16, "ab",
    )  # fmt: skip
    assert (call.dispatches, call.fallback, call.rewritten, call.ended) == (2, True, True, True)
    assert (await client.tools.get_call("call_1", full_result=True)).full_result == {"rows": [1, 2, 3]}
    assert [request.full_result for request in services.requests] == [False, True]


async def test_lists_turn_pages_and_refuse_words_that_are_no_state(client: Client, services: Services) -> None:
    (found,) = await client.tools.list_calls(
        state="unknown", skill="refund.create", session_id="ses_1", task_id="task_1", page_size=7
    ).all()
    assert (found.id, found.skill) == ("call_1", "refund.create")
    assert [request.page_token for request in services.requests] == ["", "2"]
    request = services.requests[-1]
    assert (request.state, request.session_id, request.task_id, request.page_size) == (UNKNOWN, "ses_1", "task_1", 7)
    with pytest.raises(InvalidArgument, match="dispatched"):
        client.tools.list_calls(state="gone")
    await client.tools.list_calls().take(1)
    assert services.requests[-1].state == tool_gateway_pb2.CALL_STATE_UNSPECIFIED


async def test_a_watcher_is_told_each_change_once_over_lost_and_ended_streams(
    client: Client, services: Services
) -> None:
    services.failures = [lost, lost]
    services.states = [PARKED, DISPATCHED, None, DISPATCHED, UNKNOWN, None, UNKNOWN, SUCCEEDED]
    seen = [call.state async for call in client.tools.watch_call("call_1")]
    assert seen == ["parked", "dispatched", "unknown", "succeeded"]
    assert len(services.requests) == 5


async def test_a_watcher_may_leave_before_the_end(client: Client, services: Services) -> None:
    services.states = [PARKED, DISPATCHED, SUCCEEDED]
    async with aclosing(client.tools.watch_call("call_1")) as changes:
        assert (await anext(changes)).state == "parked"
    assert len(services.requests) == 1


async def test_a_watcher_gives_up_when_the_service_stays_away_or_there_is_no_such_call(
    client: Client, services: Services
) -> None:
    services.failures = [lost] * 50
    with pytest.raises(Unavailable):
        await anext(client.tools.watch_call("call_1"))
    assert len(services.requests) == SHORT.attempts_max
    services.failures = [lambda context: context.abort(grpc.StatusCode.NOT_FOUND, "no")]
    with pytest.raises(NotFound):
        await anext(client.tools.watch_call("call_1"))


async def test_a_withdrawal_is_a_proof(client: Client, services: Services) -> None:
    found = await client.tools.cancel_call("call_1")
    assert (found.call.id, found.call.state, found.proof) == ("call_1", "cancelled", "not_sent")
    assert (await client.tools.cancel_call(call_request_id="mine")).call.id == "call_new"
    assert [(r.id, r.call_request_id) for r in services.requests] == [("call_1", ""), ("", "mine")]
    services.failures = [lost]
    assert (await client.tools.cancel_call("call_1")).proof == "not_sent"
    assert len(services.requests) == 4, "a lost answer is asked for again"


async def test_a_doubt_is_ended_by_the_upstream_or_a_person(client: Client, services: Services) -> None:
    assert (await client.tools.reconcile_call("call_1")).state == "unknown"
    assert (await client.tools.reconcile_call("call_1", outcome="happened", comment="对账单")).state == "succeeded"
    assert (await client.tools.reconcile_call("call_1", outcome="did_not_happen", comment="x")).state == "failed"
    assert [request.comment for request in services.requests] == ["", "对账单", "x"]
    with pytest.raises(InvalidArgument, match="did_not_happen"):
        await client.tools.reconcile_call("call_1", outcome="maybe")
    info = error_details_pb2.ErrorInfo(reason="CALL_NOT_UNKNOWN", domain="memoryos")
    trailers = status_of(grpc.StatusCode.FAILED_PRECONDITION, "said so", info)
    services.failures = [lambda context: context.abort(grpc.StatusCode.FAILED_PRECONDITION, "said so", trailers)]
    with pytest.raises(FailedPrecondition) as refused:
        await client.tools.reconcile_call("call_1")
    assert refused.value.reason == "CALL_NOT_UNKNOWN"


async def test_found_skills_say_what_they_do_to_the_world(client: Client, services: Services) -> None:
    found = await client.tools.search("删除订单", top_k=3)
    assert (found.words_only, [(hit.skill.name, hit.score) for hit in found.hits]) == (True, [("order.delete", 0.75)])
    skill = found.hits[0].skill
    assert (skill.effect_class, skill.egress, skill.destructive, skill.opened) == (
        "non_idempotent", "internal", True, False,
    )  # fmt: skip
    assert (services.requests[0].query, services.requests[0].top_k) == ("删除订单", 3)


async def test_the_client_that_waits_does_the_same(address: str, services: Services) -> None:
    services.states = [PARKED, None, PARKED, SUCCEEDED]

    def work() -> tuple[Any, ...]:
        with sync.connect(token="token-a", tool_gateway=address, retry=SHORT) as client:
            return (
                [call.state for call in client.tools.watch_call("call_1")],
                [call.id for call in client.tools.list_calls()],
                client.tools.get_call("call_1", full_result=True).full_result,
                client.tools.cancel_call("call_1").proof,
                client.tools.reconcile_call("call_1").state,
            )

    found = await asyncio.to_thread(work)
    assert found == (["parked", "succeeded"], ["call_1"], {"rows": [1, 2, 3]}, "not_sent", "unknown")
