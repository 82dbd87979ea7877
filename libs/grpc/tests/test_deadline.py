"""Time: no call outlives its caller's patience, and the rest of it is passed on."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from memoryos.harness.v1 import tasks_pb2, tasks_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_core.errors import DeadlineExceeded
from memoryos_grpc import remaining_s, remote_error, subject_token
from memoryos_grpc.budget import set_deadline

MEM = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
TASK = "task_01ARZ3NDEKTSV4RRFFQ69G5FAV"
GET = memoryfs_pb2.GetRequest(id=MEM)
ADD_MEMORY = memoryfs_pb2_grpc.add_MemoryFSServicer_to_server


async def budget_seen(site, server, memoryfs, bearer, timeout_s):
    seen = []

    async def behaviour(request, context):
        seen.append(remaining_s())

    memoryfs.behaviour = behaviour
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    await stub.Get(GET, timeout=timeout_s, metadata=bearer)
    return seen[0]


async def test_the_budget_is_the_smaller_of_both_sides(site, memoryfs, bearer):
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)], call_s_max=20)
    assert 4 < await budget_seen(site, server, memoryfs, bearer, 5) < 5.1
    assert 19 < await budget_seen(site, server, memoryfs, bearer, 50) < 20.1
    assert 19 < await budget_seen(site, server, memoryfs, bearer, None) < 20.1
    assert remaining_s() is None


async def test_too_little_time_is_refused_at_once(site, memoryfs, bearer):
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)], remaining_s_min=3)
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Get(GET, timeout=2, metadata=bearer)
    assert remote_error(refused.value).reason == "DEADLINE_EXCEEDED"
    assert memoryfs.requests == []


async def test_the_servers_maximum_stops_a_handler(site, memoryfs, bearer):
    stopped = asyncio.Event()

    async def behaviour(request, context):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    memoryfs.behaviour = behaviour
    server = await site.start("memoryfs", [(ADD_MEMORY, memoryfs)], call_s_max=0.05)
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(server))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Get(GET, metadata=bearer)
    assert remote_error(refused.value).reason == "DEADLINE_EXCEEDED"
    assert stopped.is_set()


async def test_streams_have_a_maximum_of_their_own(site, tasks, bearer):
    async def stream(request, context):
        yield tasks_pb2.WatchTaskResponse(sequence=1)
        await asyncio.Event().wait()

    tasks.stream = stream
    add = tasks_pb2_grpc.add_TasksServicer_to_server
    server = await site.start("harness", [(add, tasks)], stream_s_max=0.2, call_s_max=0.01)
    call = tasks_pb2_grpc.TasksStub(site.bare_channel(server)).WatchTask(
        tasks_pb2.WatchTaskRequest(id=TASK), metadata=bearer
    )
    assert (await call.read()).sequence == 1
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call.read()
    assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_outgoing_calls_never_ask_for_more_than_is_left(site, memory_server, memoryfs):
    seen = []

    async def behaviour(request, context):
        seen.append(context.time_remaining())

    memoryfs.behaviour = behaviour
    channels = site.channels("tool-gateway", client_timeout_s=8)
    stub = memoryfs_pb2_grpc.MemoryFSStub(channels.open(memory_server.address, "memoryfs"))

    async def ask(left_s, timeout_s):
        if left_s is not None:
            set_deadline(asyncio.get_running_loop().time() + left_s)
        with subject_token(site.keys.token()):
            await stub.Get(GET, timeout=timeout_s)

    for left_s, timeout_s in ((None, None), (None, 30), (5, None), (5, 30), (5, 2)):
        await asyncio.create_task(ask(left_s, timeout_s))
    assert [round(value) for value in seen] == [8, 30, 5, 5, 2]
    with pytest.raises(DeadlineExceeded):
        await asyncio.create_task(ask(-0.1, None))
    assert len(seen) == 5
