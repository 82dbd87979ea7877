"""FAULTS I5: what nobody foresaw never leaves as text; what was foreseen arrives in full."""

from __future__ import annotations

import asyncio
import io
import logging

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_core.errors import (
    AuditUnavailable,
    DependencyUnavailable,
    FieldViolation,
    InternalError,
    InvalidField,
    LimitExceeded,
    NotAllowed,
    RequestIdReused,
)
from memoryos_grpc import DenialKind, RemoteError, raise_from_rpc, remote_error
from memoryos_grpc.status import to_trailers
from memoryos_telemetry.logs import JsonFormatter

MEM = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
SECRET = "Bearer sk-live-密钥-51H8xQ"


async def failure(site, server, memoryfs, bearer, error) -> RemoteError:
    async def behaviour(request, context):
        raise error

    memoryfs.behaviour = behaviour
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)
    assert SECRET not in repr(refused.value)
    assert SECRET not in str(refused.value.trailing_metadata())
    with pytest.raises(RemoteError) as remote:
        raise_from_rpc(refused.value)
    return remote.value


@pytest.fixture
def log():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter("memoryfs"))
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


def chained() -> Exception:
    try:
        try:
            raise ConnectionError(SECRET)
        except ConnectionError as cause:
            raise ValueError(f"upstream said {SECRET}") from cause
    except ValueError as error:
        return error


async def test_the_text_of_an_exception_stays_inside(site, memory_server, memoryfs, bearer, log):
    error = await failure(site, memory_server, memoryfs, bearer, chained())
    assert (error.code, error.reason) == ("INTERNAL", "INTERNAL")
    assert error.message == f"Internal error; trace {error.metadata['trace_id']}."
    logged = log.getvalue()
    assert error.metadata["trace_id"] in logged
    assert "ValueError" in logged
    assert "ConnectionError" in logged

    def spans() -> list[str]:
        return [path.read_text() for path in site.spans.glob("*")]

    async with asyncio.timeout(5):  # the span ends right after the answer has left
        while not any('"error.type":"ValueError"' in text for text in spans()):  # noqa: ASYNC110 - a file
            await asyncio.sleep(0)
    for text in (logged, *spans()):
        assert "sk-live" not in text


async def test_our_own_internal_errors_keep_their_text_inside_too(site, memory_server, memoryfs, bearer, log):
    error = await failure(site, memory_server, memoryfs, bearer, InternalError(f"row {SECRET}"))
    assert error.message.startswith("Internal error; trace ")
    assert "sk-live" not in log.getvalue()


@pytest.mark.parametrize(
    ("raised", "code", "reason"),
    [
        (NotAllowed("Not for you."), "PERMISSION_DENIED", "NOT_ALLOWED"),
        (RequestIdReused(), "ABORTED", "REQUEST_ID_REUSED"),
        (AuditUnavailable(), "UNAVAILABLE", "AUDIT_UNAVAILABLE"),
        (DependencyUnavailable("PostgreSQL does not answer."), "UNAVAILABLE", "DEPENDENCY_UNAVAILABLE"),
        (RemoteError("UNAVAILABLE", "X", message=SECRET), "UNAVAILABLE", "DEPENDENCY_UNAVAILABLE"),
        (RemoteError("DEADLINE_EXCEEDED", "", message=SECRET), "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"),
        (RemoteError("NOT_FOUND", "ITEM_NOT_FOUND", message=SECRET), "INTERNAL", "INTERNAL"),
        (RemoteError("PERMISSION_DENIED", "ROLE_REQUIRED", message=SECRET), "INTERNAL", "INTERNAL"),
        (KeyError(SECRET), "INTERNAL", "INTERNAL"),
        (TimeoutError(SECRET), "INTERNAL", "INTERNAL"),
    ],
)
async def test_codes_and_reasons(site, memory_server, memoryfs, bearer, raised, code, reason):
    error = await failure(site, memory_server, memoryfs, bearer, raised)
    assert (error.code, error.reason) == (code, reason)
    assert len(error.metadata["trace_id"]) == 32


async def test_details_arrive_in_full(site, memory_server, memoryfs, bearer):
    raised = LimitExceeded("队列已满。", metadata={"limit": "embedder.queue"}, retry_after_s=1.5)
    error = await failure(site, memory_server, memoryfs, bearer, raised)
    assert error.message == "队列已满。"
    assert error.metadata["limit"] == "embedder.queue"
    assert error.retry_after_s == 1.5
    violations = (FieldViolation("a.b[0]", "is required"), FieldViolation("c", "is too long"))
    error = await failure(site, memory_server, memoryfs, bearer, InvalidField("two", violations=violations))
    assert error.violations == violations


async def test_a_status_always_fits_the_metadata_that_clients_take(site, memory_server, memoryfs, bearer):
    violations = [FieldViolation("界" * 500, "界" * 500) for _ in range(500)]
    metadata = {f"k{n}": "界" * 5000 for n in range(100)}
    raised = InvalidField("界" * 5000, violations=violations, metadata=metadata)
    assert len(to_trailers(raised, "f" * 32)[0][1]) < 5_500
    error = await failure(site, memory_server, memoryfs, bearer, raised)
    assert error.reason == "INVALID_FIELD"
    assert error.violations
    assert len(error.metadata["trace_id"]) == 32


async def test_a_handler_that_aborts_itself_is_left_alone(site, memory_server, memoryfs, bearer):
    async def behaviour(request, context):
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "mine")

    memoryfs.behaviour = behaviour
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.OUT_OF_RANGE, "mine")


async def test_a_wrong_answer_type_is_an_internal_error(site, memory_server, memoryfs, bearer):
    async def behaviour(request, context):
        return memoryfs_pb2.ReadResponse(hits=[{"score": 1}])

    async def nonsense(request, context):
        return SECRET

    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    memoryfs.behaviour = nonsense
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)
    assert refused.value.code() is grpc.StatusCode.INTERNAL
    assert SECRET not in repr(refused.value)


async def test_denials_of_handlers_are_recorded_with_their_caller(site, memory_server, memoryfs, bearer):
    await failure(site, memory_server, memoryfs, bearer, NotAllowed())
    ((kind, method, caller, reason),) = site.audit.denials
    assert kind is DenialKind.PERMISSION_DENIED
    assert method == "/memoryos.memoryfs.v1.MemoryFS/Get"
    assert (caller.identity.user, reason) == ("u42", "NOT_ALLOWED")


async def test_a_denial_is_recorded_though_its_caller_hangs_up(site, memory_server):
    asked, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    record = site.audit.denied

    async def slow(kind, method, caller, reason):
        asked.set()
        await go_on.wait()
        await record(kind, method, caller, reason)
        done.set()

    site.audit.denied = slow
    channel = site.bare_channel(memory_server)
    call = memoryfs_pb2_grpc.MemoryFSStub(channel).Get(memoryfs_pb2.GetRequest(id=MEM))
    await asyncio.wait_for(asked.wait(), 5)
    call.cancel()
    for _ in range(3):  # on the same connection, so the server has seen the cancellation before
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    go_on.set()
    await asyncio.wait_for(done.wait(), 5)
    assert site.audit.denials[0][0] is DenialKind.AUTH_FAILED


async def test_a_failing_record_lets_nobody_in(site, memory_server, memoryfs, log):
    async def broken(kind, method, caller, reason):
        raise ConnectionError(SECRET)

    site.audit.denied = broken
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Get(memoryfs_pb2.GetRequest(id=MEM))
    assert remote_error(refused.value).reason == "TOKEN_MISSING"
    assert memoryfs.requests == []
    assert "denial not recorded" in log.getvalue()
    assert "sk-live" not in log.getvalue()


async def test_bytes_that_are_no_message_are_the_callers_fault(site, memory_server, memoryfs, bearer):
    get = site.bare_channel(memory_server).unary_unary("/memoryos.memoryfs.v1.MemoryFS/Get")
    for raw in (b"\xff\xff\xff", b"\x0a\x05\xff\xfe\xfd\xfc\xfb"):  # no protobuf; a string that is no UTF-8
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await get(raw, metadata=bearer)
        assert remote_error(refused.value).reason == "INVALID_FIELD"
    with pytest.raises(grpc.aio.AioRpcError) as anonymous:
        await get(b"\xff\xff\xff")
    assert remote_error(anonymous.value).reason == "TOKEN_MISSING"  # parsed for known callers only
    assert memoryfs.requests == []
