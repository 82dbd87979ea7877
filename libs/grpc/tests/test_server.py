"""Start, health, reflection, limits and graceful end of a server."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from memoryos.harness.v1 import tasks_pb2, tasks_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_grpc import METHOD_RULES, NotServable, caller, remote_error, scope, subject_token

from .conftest import IDENTITY

MEM = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
TASK = "task_01ARZ3NDEKTSV4RRFFQ69G5FAV"
ADD_MEMORY = memoryfs_pb2_grpc.add_MemoryFSServicer_to_server


async def test_a_handler_knows_its_caller(site, memory_server, memoryfs, bearer):
    seen = []

    async def behaviour(request, context):
        seen.append((caller(), scope()))

    memoryfs.behaviour = behaviour
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server))
    await stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)
    who, where = seen[0]
    assert (who.identity.user, who.service) == ("u42", None)
    assert (where.tenant, where.user) == ("acme", "u42")
    assert memoryfs.requests[0].id == MEM


async def test_health_and_reflection_need_no_token(site, memory_server):
    channel = site.bare_channel(memory_server)
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "memoryos.memoryfs.v1.MemoryFS"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = reflection.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    answer = await call.read()
    assert "memoryos.memoryfs.v1.MemoryFS" in {s.name for s in answer.list_services_response.service}


async def test_a_method_without_a_rule_refuses_the_start(site, memoryfs):
    rules = {name: rule for name, rule in METHOD_RULES.items() if not name.endswith("/Forget")}
    with pytest.raises(NotServable, match=r"MemoryFS/Forget has no entry"):
        site.server("memoryfs", [(ADD_MEMORY, memoryfs)], rules=rules)


async def test_a_method_without_an_async_handler_refuses_the_start(site):
    with pytest.raises(NotServable, match="Write is not implemented"):
        site.server("memoryfs", [(ADD_MEMORY, memoryfs_pb2_grpc.MemoryFSServicer())])


async def test_streams_pass_all_interceptors(site, task_server, tasks, bearer):
    async def stream(request, context):
        for sequence in range(1, 4):
            yield tasks_pb2.WatchTaskResponse(sequence=sequence)

    tasks.stream = stream
    stub = tasks_pb2_grpc.TasksStub(site.bare_channel(task_server))
    got = [e.sequence async for e in stub.WatchTask(tasks_pb2.WatchTaskRequest(id=TASK), metadata=bearer)]
    assert got == [1, 2, 3]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.WatchTask(tasks_pb2.WatchTaskRequest(id="nope"), metadata=bearer).read()
    assert remote_error(refused.value).violations[0].field == "id"
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await stub.WatchTask(tasks_pb2.WatchTaskRequest(id=TASK)).read()
    assert remote_error(unknown.value).reason == "TOKEN_MISSING"


async def test_a_second_server_on_the_port_is_refused(site, memory_server, memoryfs):
    second = site.server("memoryfs", [(ADD_MEMORY, memoryfs)], port=memory_server.port)
    with pytest.raises(OSError, match="cannot listen"):
        await second.start()


async def test_the_port_file_has_the_bound_port_and_goes_with_the_server(site, memoryfs, tmp_path):
    port_file = tmp_path / "run" / "memoryfs.port"
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)], port_file=port_file)
    assert int(port_file.read_text()) == server.port > 0
    await server.stop(0)
    assert not port_file.exists()


async def test_a_running_call_ends_before_the_server_does(site, memoryfs, bearer):
    started, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def behaviour(request, context):
        started.set()
        await go_on.wait()
        return memoryfs_pb2.GetResponse(item={"id": MEM})

    memoryfs.behaviour = behaviour
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)])
    serving = asyncio.create_task(server.serve_until(stop))
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    call = stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)
    await asyncio.wait_for(started.wait(), 5)
    stop.set()
    health = health_pb2_grpc.HealthStub(site.bare_channel(server))

    async def watch_health():
        async with asyncio.timeout(5):
            while (await health.Check(health_pb2.HealthCheckRequest(), timeout=1)).status == 1:  # SERVING
                pass

    with contextlib.suppress(grpc.aio.AioRpcError):  # NOT_SERVING, or the port is closed already
        await watch_health()
    with pytest.raises(grpc.aio.AioRpcError):
        await memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server)).Get(
            memoryfs_pb2.GetRequest(id=MEM), metadata=bearer
        )
    go_on.set()
    assert (await call).item.id == MEM
    await asyncio.wait_for(serving, 5)


async def test_a_stopping_server_ends_streams_so_that_watchers_resume(site, task_server, tasks, bearer):
    closed = asyncio.Event()

    async def stream(request, context):
        try:
            yield tasks_pb2.WatchTaskResponse(sequence=1)
            await asyncio.Event().wait()
        finally:
            closed.set()

    tasks.stream = stream
    stub = tasks_pb2_grpc.TasksStub(site.bare_channel(task_server))
    call = stub.WatchTask(tasks_pb2.WatchTaskRequest(id=TASK), metadata=bearer)
    assert (await call.read()).sequence == 1
    await asyncio.wait_for(task_server.stop(30), 5)
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call.read()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    assert closed.is_set()


async def test_too_many_calls_are_told_when_to_come_again(site, memoryfs, bearer):
    go_on, started = asyncio.Event(), asyncio.Event()

    async def behaviour(request, context):
        started.set()
        await go_on.wait()

    memoryfs.behaviour = behaviour
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)], concurrent_calls_max=1)
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    first = stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)
    await asyncio.wait_for(started.wait(), 5)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)
    error = remote_error(refused.value)
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED")
    assert error.metadata["limit"] == "grpc.concurrent_calls_max"
    assert error.retry_after_s > 0
    health = health_pb2_grpc.HealthStub(site.bare_channel(server))
    assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
    go_on.set()
    await first
    await stub.Get(memoryfs_pb2.GetRequest(id=MEM), metadata=bearer)


async def test_one_user_does_not_fill_the_server(site, tasks, bearer):
    """Streams stay open as long as their watcher likes: a user's share is bounded, another's is left alone."""
    ended = asyncio.Event()

    async def stream(request, context):
        yield tasks_pb2.WatchTaskResponse(sequence=1)
        await ended.wait()

    tasks.stream = stream
    add = tasks_pb2_grpc.add_TasksServicer_to_server
    server = await site.start("harness", [(add, tasks)], calls_per_user_max=2)
    stub = tasks_pb2_grpc.TasksStub(site.bare_channel(server))
    watch = tasks_pb2.WatchTaskRequest(id=TASK)
    streams = [stub.WatchTask(watch, metadata=bearer) for _ in range(2)]
    for call in streams:
        assert (await call.read()).sequence == 1
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.GetTask(tasks_pb2.GetTaskRequest(id=TASK), metadata=bearer)
    error = remote_error(refused.value)
    assert (error.code, error.reason) == ("RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED")
    assert error.metadata["limit"] == "grpc.calls_per_user_max"
    for other in (replace(IDENTITY, user="u43"), replace(IDENTITY, tenant="rival")):
        others = (("authorization", f"Bearer {site.keys.token(other)}"),)
        await stub.GetTask(tasks_pb2.GetTaskRequest(id=TASK), metadata=others)
    ended.set()
    for call in streams:
        assert await call.read() is grpc.aio.EOF
    await stub.GetTask(tasks_pb2.GetTaskRequest(id=TASK), metadata=bearer)


async def test_a_message_above_the_limit_is_refused(site, memoryfs, bearer):
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)], message_bytes_max=20_000)
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Read(memoryfs_pb2.ReadRequest(query="x" * 30_000), metadata=bearer)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert memoryfs.requests == []


def _self_signed(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return cert_file, key_file


async def test_mutual_tls_by_configuration(site, memoryfs, tmp_path):
    cert_file, key_file = _self_signed(tmp_path)
    tls = {"tls_cert_file": cert_file, "tls_key_file": key_file}
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)], tls_client_ca_file=cert_file, **tls)
    request = memoryfs_pb2.GetRequest(id=MEM)
    good = site.channels("tool-gateway", tls_peer_ca_file=cert_file, **tls).open(server.address, "memoryfs")
    with subject_token(site.keys.token()):
        await memoryfs_pb2_grpc.MemoryFSStub(good).Get(request)
        for limits in ({"tls_peer_ca_file": cert_file}, {}):  # no client certificate; no TLS at all
            bad = site.channels("tool-gateway", **limits).open(server.address, "memoryfs")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await memoryfs_pb2_grpc.MemoryFSStub(bad).Get(request, timeout=5)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert len(memoryfs.requests) == 1


async def test_half_a_tls_configuration_is_refused(site, memoryfs, tmp_path):
    cert_file, _ = _self_signed(tmp_path)
    with pytest.raises(ValueError, match="come together"):
        await site.server("memoryfs", [(ADD_MEMORY, memoryfs)], tls_cert_file=cert_file).start()
