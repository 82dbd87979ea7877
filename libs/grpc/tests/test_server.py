"""Start, health, reflection, limits and graceful end of a server."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from memoryos.harness.v1 import tasks_pb2, tasks_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_grpc import METHOD_RULES, NotServable, caller, remote_error, scope

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
        site.server("memoryfs", [(ADD_MEMORY, memoryfs)]).__init__(  # the same parts, other rules
            "memoryfs",
            [(ADD_MEMORY, memoryfs)],
            verifier=None,
            telemetry=site.telemetry("memoryfs"),
            config=None,
            rules=rules,
        )


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
    assert asyncio.get_running_loop().is_running()
