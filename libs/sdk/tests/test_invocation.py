"""Tokens, deadlines, retries and typed errors over a real channel."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from memoryos_sdk import (
    Aborted,
    CallError,
    Client,
    DeadlineExceeded,
    InvalidArgument,
    PermissionDenied,
    ResourceExhausted,
    Retry,
    Unavailable,
    connect,
)

from .conftest import SHORT, Failure, Services, status_of

PATH = "/tenants/acme/memory/episodic"


def failing(code: grpc.StatusCode, *details: Any) -> Failure:
    async def fail(context: Any) -> None:
        await context.abort(code, "said so", status_of(code, "said so", *details))

    return fail


async def test_a_retry_is_the_same_request(client: Client, services: Services) -> None:
    services.failures = [failing(grpc.StatusCode.UNAVAILABLE)] * 2
    await client.memory.write(PATH, content="x")
    assert len(services.requests) == 3
    assert len({r.request_id for r in services.requests}) == 1
    assert len(services.items) == 1


async def test_each_call_has_its_own_request_id_unless_given(client: Client, services: Services) -> None:
    await client.memory.write(PATH, content="x")
    await client.memory.write(PATH, content="x")
    await client.memory.write(PATH, content="x", request_id="mine")
    first, second, third = (r.request_id for r in services.requests)
    assert first != second
    assert third == "mine"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.ABORTED, Aborted),
        (grpc.StatusCode.PERMISSION_DENIED, PermissionDenied),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ResourceExhausted),
        (grpc.StatusCode.DEADLINE_EXCEEDED, DeadlineExceeded),
        (grpc.StatusCode.UNKNOWN, CallError),
        (grpc.StatusCode.DATA_LOSS, CallError),
    ],
)
async def test_nothing_but_unavailable_is_tried_again(
    client: Client, services: Services, code: grpc.StatusCode, kind: type[CallError]
) -> None:
    services.failures = [failing(code)]
    with pytest.raises(CallError) as caught:
        await client.memory.write(PATH, content="x")
    assert type(caught.value) is kind
    assert len(services.requests) == 1


async def test_unavailable_gives_up_after_its_attempts(client: Client, services: Services) -> None:
    services.failures = [failing(grpc.StatusCode.UNAVAILABLE)] * 50
    with pytest.raises(Unavailable):
        await client.memory.read(PATH)
    assert len(services.requests) == SHORT.attempts_max


async def test_the_deadline_counts_all_attempts(client: Client, services: Services) -> None:
    async def slow(context: Any) -> None:
        await asyncio.sleep(0.3)
        await failing(grpc.StatusCode.UNAVAILABLE)(context)

    services.failures = [slow] * 50
    start = time.monotonic()
    with pytest.raises((DeadlineExceeded, Unavailable)):
        await client.memory.read(PATH, timeout_s=0.5)
    assert len(services.requests) == 2
    assert time.monotonic() - start < 5


async def test_an_error_says_all_that_the_service_said(client: Client, services: Services) -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="entries[0].content", description="is empty")
    info = error_details_pb2.ErrorInfo(reason="INVALID_FIELD", domain="memoryos", metadata={"limit": "1"})
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=2, nanos=500_000_000))
    services.failures = [failing(grpc.StatusCode.INVALID_ARGUMENT, info, bad, retry)]
    with pytest.raises(InvalidArgument, match=r"said so \(INVALID_FIELD\)") as caught:
        await client.memory.read(PATH)
    error = caught.value
    assert (error.code, error.reason, error.metadata, error.retry_after_s) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        {"limit": "1"},
        2.5,
    )
    assert [(v.field, v.description) for v in error.violations] == [("entries[0].content", "is empty")]


async def test_damaged_details_are_absent_details(client: Client, services: Services) -> None:
    async def fail(context: Any) -> None:
        await context.abort(grpc.StatusCode.ABORTED, "no", (("grpc-status-details-bin", b"\xff\xff\xff"),))

    services.failures = [fail]
    with pytest.raises(Aborted) as caught:
        await client.memory.read(PATH)
    assert (caught.value.reason, caught.value.violations) == ("", ())


async def test_callers_share_connections_and_nothing_else(client: Client, services: Services) -> None:
    other = client.as_caller("token-b")
    await asyncio.gather(*(c.memory.read(PATH) for c in (client, other) * 5))
    tokens = [m["authorization"] for m in services.metadata]
    assert sorted(tokens) == ["Bearer token-a"] * 5 + ["Bearer token-b"] * 5


async def test_a_token_source_is_asked_for_every_attempt(address: str, services: Services) -> None:
    tokens = iter(["first", "second"])

    async def fresh() -> str:
        return next(tokens)

    services.failures = [failing(grpc.StatusCode.UNAVAILABLE)]
    async with connect(token=fresh, memoryfs=address, retry=SHORT) as client:
        await client.memory.read(PATH)
    assert [m["authorization"] for m in services.metadata] == ["Bearer first", "Bearer second"]


async def test_cancelling_a_call_cancels_it_at_the_server(client: Client, services: Services) -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_context: Any) -> None:
        entered.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    services.failures = [hang]
    call = asyncio.create_task(client.memory.read(PATH))
    await asyncio.wait_for(entered.wait(), 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(cancelled.wait(), 10)


async def test_a_service_whose_address_was_not_given_is_named() -> None:
    async with connect(token="t", memoryfs="127.0.0.1:1") as client:
        with pytest.raises(ValueError, match="address"):
            await client.tools.call("x")


async def test_nobody_listens() -> None:
    async with connect(token="t", memoryfs="127.0.0.1:1", timeout_s=0.5) as client:
        with pytest.raises((Unavailable, DeadlineExceeded)):
            await client.memory.read(PATH)


def test_pauses_grow_to_a_cap() -> None:
    retry = Retry(first_pause_s=0.1, pause_s_max=2)
    for attempt in range(1, 50):
        full = min(2.0, 0.1 * 2 ** (attempt - 1))
        assert full / 2 <= retry.pause_s(attempt) <= full
