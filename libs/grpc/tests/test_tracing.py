"""FAULTS T1, T2, T3: cancellation arrives, traces hang together, failures are seen."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from memoryos.harness.v1 import tasks_pb2, tasks_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_core.errors import NotAllowed
from memoryos_grpc import subject_token
from memoryos_telemetry import continue_trace, current_trace_id, current_traceparent, trace_tree
from memoryos_telemetry.span_file import span_files
from memoryos_telemetry.span_lines import read_lines
from memoryos_testing.servicers import completed

MEM = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
CALL = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV"
TASK = "task_01ARZ3NDEKTSV4RRFFQ69G5FAV"
GET = memoryfs_pb2.GetRequest(id=MEM)


def ended_spans(site):
    lines = [line for path in span_files(site.spans) for line in read_lines(path)]
    return {(s.kind, s.name.rpartition("/")[2]): s for s in lines if s.end_ns is not None}


async def nothing(servicer, request, context, empty):
    return empty


async def until(condition, timeout_s=5.0):
    """Wait until `condition` holds; spans end in callbacks right after the call."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 -- there is no event for a line in a file
            await asyncio.sleep(0)


@completed("memoryos.toolgateway.v1.ToolGateway", nothing)
class Relay(tool_gateway_pb2_grpc.ToolGatewayServicer):
    """A gateway whose GetCall asks memoryfs: two hops."""

    def __init__(self, stub):
        self.stub = stub
        self.cancelled = asyncio.Event()

    async def GetCall(self, request, context):
        try:
            await self.stub.Get(GET)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return tool_gateway_pb2.GetCallResponse()


@pytest.fixture
async def gateway(site, memory_server):
    telemetry = site.telemetry("tool-gateway")
    channel = site.channels("tool-gateway", telemetry=telemetry).open(memory_server.address, "memoryfs")
    relay = Relay(memoryfs_pb2_grpc.MemoryFSStub(channel))
    add = tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server
    server = await site.start("tool-gateway", [(add, relay)], telemetry=telemetry)
    return server, relay


async def test_t1_cancelling_reaches_the_handler_and_both_spans_end(site, memory_server, memoryfs):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def behaviour(request, context):
        started.set()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    memoryfs.behaviour = behaviour
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.channels("tool-gateway").open(memory_server.address, "memoryfs"))
    with subject_token(site.keys.token()):
        task = asyncio.ensure_future(_await(stub.Get(GET)))
        await asyncio.wait_for(started.wait(), 5)
    task.cancel()
    await asyncio.wait_for(cancelled.wait(), 0.5)
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: len(ended_spans(site)) == 2)
    for span in ended_spans(site).values():
        assert span.failed
        assert span.error_type == "CANCELLED"
        assert span.attributes["rpc.grpc.status_code"] == 1


async def _await(call):
    return await call


async def test_t1_cancelling_reaches_through_two_hops(site, gateway, memoryfs):
    server, relay = gateway
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def behaviour(request, context):
        started.set()
        try:
            await asyncio.sleep(10)
        finally:
            cancelled.set()

    memoryfs.behaviour = behaviour
    stub = tool_gateway_pb2_grpc.ToolGatewayStub(site.channels("harness").open(server.address, "tool-gateway"))
    with subject_token(site.keys.token()):
        call = stub.GetCall(tool_gateway_pb2.GetCallRequest(id=CALL))
    await asyncio.wait_for(started.wait(), 5)
    call.cancel()
    await asyncio.wait_for(relay.cancelled.wait(), 0.5)
    await asyncio.wait_for(cancelled.wait(), 0.5)
    await until(lambda: len(ended_spans(site)) == 4)
    assert {span.error_type for span in ended_spans(site).values()} == {"CANCELLED"}


async def test_t1_a_stream_that_is_cancelled_closes_its_generator(site, task_server, tasks):
    closed = asyncio.Event()

    async def stream(request, context):
        try:
            yield tasks_pb2.WatchTaskResponse(sequence=1)
            await asyncio.sleep(10)
        finally:
            closed.set()

    tasks.stream = stream
    stub = tasks_pb2_grpc.TasksStub(site.channels("tool-gateway").open(task_server.address, "harness"))
    with subject_token(site.keys.token()):
        call = stub.WatchTask(tasks_pb2.WatchTaskRequest(id=TASK))
        await call.read()
    call.cancel()
    await asyncio.wait_for(closed.wait(), 0.5)
    await until(lambda: len(ended_spans(site)) == 2)
    assert {span.error_type for span in ended_spans(site).values()} == {"CANCELLED"}


async def test_t2_two_hops_are_one_connected_tree(site, gateway, memory_server):
    server, _ = gateway
    telemetry = site.telemetry("harness")
    channel = site.channels("harness", telemetry=telemetry).open(server.address, "tool-gateway")
    stub = tool_gateway_pb2_grpc.ToolGatewayStub(channel)
    with telemetry.tracer("test").span("invoke_agent demo", attributes={"memoryos.task_id": TASK}):
        trace_id = current_trace_id()
        with subject_token(site.keys.token()):
            await asyncio.gather(*(stub.GetCall(tool_gateway_pb2.GetCallRequest(id=CALL)) for _ in range(3)))
    tree = trace_tree(site.spans, trace_id)
    assert tree.connected, tree.render()
    assert tree.services == {"harness", "tool-gateway", "memoryfs"}
    chain = [(s.service, s.kind, s.name.rpartition("/")[2]) for s in tree.spans]
    hop = [
        ("harness", "client", "GetCall"),
        ("tool-gateway", "server", "GetCall"),
        ("tool-gateway", "client", "Get"),
        ("memoryfs", "server", "Get"),
    ]
    assert chain == [("harness", "internal", "invoke_agent demo"), *hop, *hop, *hop]


async def test_t2_a_kept_traceparent_is_continued_later(site, memory_server):
    telemetry = site.telemetry("harness")
    tracer = telemetry.tracer("test")
    with tracer.span("submit"):
        kept = current_traceparent()
    stub = memoryfs_pb2_grpc.MemoryFSStub(
        site.channels("harness", telemetry=telemetry).open(memory_server.address, "memoryfs")
    )
    with continue_trace(kept), tracer.span("step"), subject_token(site.keys.token()):
        await stub.Get(GET)
    tree = trace_tree(site.spans, kept.split("-")[1])
    assert tree.connected
    assert [span.name for span in tree.spans][:2] == ["submit", "step"]
    assert len(tree.spans) == 4


async def test_t2_concurrent_calls_do_not_adopt_each_other(site, memory_server, memoryfs):
    seen = {}

    async def behaviour(request, context):
        await asyncio.sleep(0)
        seen[request.id] = current_trace_id()

    memoryfs.behaviour = behaviour
    telemetry = site.telemetry("harness")
    stub = memoryfs_pb2_grpc.MemoryFSStub(
        site.channels("harness", telemetry=telemetry).open(memory_server.address, "memoryfs")
    )
    sent = {}

    async def one(item):
        with telemetry.tracer("test").span("root"), subject_token(site.keys.token()):
            sent[item] = current_trace_id()
            await stub.Get(memoryfs_pb2.GetRequest(id=item))

    await asyncio.gather(*(one(f"mem_{n:026d}") for n in range(20)))
    assert seen == sent
    assert len(set(sent.values())) == 20


@pytest.mark.parametrize("flags", ["00", "01", "03"])
async def test_a_caller_cannot_switch_tracing_off(site, memory_server, bearer, flags):
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    await stub.Get(GET, metadata=(*bearer, ("traceparent", f"00-{trace_id}-00f067aa0ba902b7-{flags}")))
    (span,) = trace_tree(site.spans, trace_id).spans
    assert span.parent_id == "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("traceparent", "nonsense"),),
        (("traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"),),
        (("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra"),),
    ],
)
async def test_without_one_good_traceparent_a_trace_starts(site, memory_server, bearer, headers):
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    await stub.Get(GET, metadata=(*bearer, *headers))
    await until(lambda: ended_spans(site))
    (span,) = ended_spans(site).values()
    assert span.parent_id is None
    assert not span.failed


async def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("behaviour", "limits", "timeout_s", "server_type", "client_type"),
    [
        (lambda r, c: _raise(ValueError("x")), {}, None, "ValueError", "INTERNAL"),
        (lambda r, c: _raise(NotAllowed()), {}, None, "NOT_ALLOWED", "PERMISSION_DENIED"),
        (lambda r, c: asyncio.sleep(10), {"call_s_max": 0.05}, None, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"),
        (lambda r, c: asyncio.sleep(10), {}, 0.1, "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"),
        (lambda r, c: c.abort(grpc.StatusCode.DATA_LOSS, ""), {}, None, "ABORTED_BY_HANDLER", "DATA_LOSS"),
        (lambda r, c: _raise(asyncio.CancelledError()), {}, None, "CANCELLED", "INTERNAL"),
    ],
)
async def test_t3_every_failure_is_an_error_on_both_spans(
    site, memoryfs, behaviour, limits, timeout_s, server_type, client_type
):
    memoryfs.behaviour = behaviour
    add = memoryfs_pb2_grpc.add_MemoryFSServicer_to_server
    server = await site.start("memoryfs", [(add, memoryfs)], **limits)
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.channels("tool-gateway").open(server.address, "memoryfs"))
    with subject_token(site.keys.token()), pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await stub.Get(GET, timeout=timeout_s)
    await until(lambda: len(ended_spans(site)) == 2)
    spans = ended_spans(site)
    assert spans["server", "Get"].failed
    assert spans["server", "Get"].error_type == server_type
    assert spans["client", "Get"].failed
    assert spans["client", "Get"].error_type == client_type


@pytest.mark.parametrize(
    ("request_", "token", "error"),
    [(GET, False, "TOKEN_MISSING"), (memoryfs_pb2.GetRequest(id="x"), True, "INVALID_FIELD")],
)
async def test_t3_refusals_are_errors_too(site, memory_server, bearer, request_, token, error):
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    with pytest.raises(grpc.aio.AioRpcError):
        await stub.Get(request_, metadata=bearer if token else ())
    await until(lambda: ended_spans(site))
    (span,) = ended_spans(site).values()
    assert span.error_type == error


async def test_t3_a_peer_that_is_not_there(site):
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.channels("tool-gateway").open("127.0.0.1:1", "memoryfs"))
    with subject_token("t"), pytest.raises(grpc.aio.AioRpcError):
        await stub.Get(GET, timeout=5)
    await until(lambda: ended_spans(site))
    (span,) = ended_spans(site).values()
    assert (span.kind, span.error_type) == ("client", "UNAVAILABLE")
