"""Channels: credentials on every call, retries where they cannot do harm, nothing else."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from memoryos.memoryfs.v1 import memoryfs_pb2, memoryfs_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2, tool_gateway_pb2_grpc
from memoryos_core.clock import ManualClock
from memoryos_core.errors import DependencyUnavailable
from memoryos_core.ids import UlidSource
from memoryos_core.tokens import SERVICE_TTL_S_MAX, TokenSigner
from memoryos_grpc import NoCaller, caller, remote_error, scope, subject_token
from memoryos_grpc.client.service_tokens import ServiceTokens
from memoryos_testing.servicers import completed

MEM = "mem_01ARZ3NDEKTSV4RRFFQ69G5FAV"
GET = memoryfs_pb2.GetRequest(id=MEM)
CALL_SKILL = tool_gateway_pb2.CallSkillRequest(skill="s", arguments_json=b"{}", request_id="r")


@completed("memoryos.toolgateway.v1.ToolGateway", lambda self, request, context, empty: self._answer(empty))
class Flaky(tool_gateway_pb2_grpc.ToolGatewayServicer):
    """A gateway that is unavailable the first times."""

    def __init__(self, failures):
        self.failures = failures
        self.calls = 0

    async def _answer(self, answer):
        self.calls += 1
        if self.calls <= self.failures:
            raise DependencyUnavailable
        return answer


async def flaky_stub(site, failures):
    servicer = Flaky(failures)
    add = tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server
    server = await site.start("tool-gateway", [(add, servicer)])
    channel = site.channels("memoryfs").open(server.address, "tool-gateway")
    return servicer, tool_gateway_pb2_grpc.ToolGatewayStub(channel)


async def test_both_credentials_arrive(site, memory_server, memoryfs):
    seen = []

    async def behaviour(request, context):
        seen.append(caller())

    memoryfs.behaviour = behaviour
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.channels("tool-gateway").open(memory_server.address, "memoryfs"))
    token = site.keys.token()
    with subject_token(token):
        await stub.Get(GET)
    assert (seen[0].service, seen[0].identity.user, seen[0].subject_token) == ("tool-gateway", "u42", token)
    assert token not in repr(seen[0])
    with pytest.raises(grpc.aio.AioRpcError) as nobody:
        await stub.Get(GET)
    assert remote_error(nobody.value).reason == "TOKEN_MISSING"


async def test_the_callers_token_is_forwarded(site, memory_server, memoryfs, bearer):
    seen = []
    channels = site.channels("memoryfs")
    add = memoryfs_pb2_grpc.add_MemoryFSServicer_to_server
    inner = type(memoryfs)()
    inner_server = await site.start("memoryfs", [(add, inner)])
    stub = memoryfs_pb2_grpc.MemoryFSStub(channels.open(inner_server.address, "memoryfs"))

    async def ask_inner(request, context):
        await stub.Get(GET)

    async def look(request, context):
        seen.append((caller().identity.user, caller().service))

    memoryfs.behaviour, inner.behaviour = ask_inner, look
    await memoryfs_pb2_grpc.MemoryFSStub(site.bare_channel(memory_server)).Get(GET, metadata=bearer)
    assert seen == [("u42", "memoryfs")]
    with pytest.raises(NoCaller):
        caller()
    with pytest.raises(NoCaller):
        scope()


async def test_unavailable_is_retried_where_it_is_safe(site):
    servicer, stub = await flaky_stub(site, failures=2)
    with subject_token(site.keys.token()):
        await stub.ListSkills(tool_gateway_pb2.ListSkillsRequest())
    assert servicer.calls == 3


async def test_retries_end(site):
    servicer, stub = await flaky_stub(site, failures=100)
    with subject_token(site.keys.token()), pytest.raises(grpc.aio.AioRpcError) as failed:
        await stub.ListSkills(tool_gateway_pb2.ListSkillsRequest())
    assert servicer.calls == 4
    assert remote_error(failed.value).reason == "DEPENDENCY_UNAVAILABLE"


async def test_a_skill_is_never_called_again(site):
    servicer, stub = await flaky_stub(site, failures=1)
    with subject_token(site.keys.token()), pytest.raises(grpc.aio.AioRpcError) as failed:
        await stub.CallSkill(CALL_SKILL)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    assert servicer.calls == 1


async def test_other_codes_are_not_retried(site, memory_server, memoryfs):
    async def behaviour(request, context):
        raise ValueError

    memoryfs.behaviour = behaviour
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.channels("tool-gateway").open(memory_server.address, "memoryfs"))
    with subject_token(site.keys.token()), pytest.raises(grpc.aio.AioRpcError):
        await stub.Get(GET)
    assert len(memoryfs.requests) == 1


async def test_a_restarted_peer_is_found_again(site, memoryfs):
    add = memoryfs_pb2_grpc.add_MemoryFSServicer_to_server
    server = await site.start("memoryfs", [(add, memoryfs)])
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.channels("tool-gateway").open(server.address, "memoryfs"))
    with subject_token(site.keys.token()):
        await stub.Get(GET)
        await server.stop(0)
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Get(GET, timeout=5)
        await site.start("memoryfs", [(add, memoryfs)], port=server.port)
        await stub.Get(GET, timeout=10, wait_for_ready=True)


async def test_credentials_are_the_channels_to_give(site, memory_server):
    stub = memoryfs_pb2_grpc.MemoryFSStub(site.channels("tool-gateway").open(memory_server.address, "memoryfs"))
    for key in ("authorization", "Authorization", "x-memoryos-service-token", "traceparent"):
        with pytest.raises(ValueError, match="set by the channel"):
            stub.Get(GET, metadata=((key, "x"),))


async def test_one_channel_per_peer(site, memory_server):
    channels = site.channels("tool-gateway")
    first = channels.open(memory_server.address, "memoryfs")
    assert channels.open(memory_server.address, "memoryfs") is first
    assert channels.open(memory_server.address, "policy") is not first
    await channels.close()
    with subject_token("t"), pytest.raises((grpc.aio.UsageError, asyncio.CancelledError)):
        await memoryfs_pb2_grpc.MemoryFSStub(first).Get(GET)


def test_a_service_cannot_use_anothers_key(site):
    from memoryos_grpc import Channels, GrpcSection

    signer = site.keys.signer(site.keys.gateway)
    with pytest.raises(ValueError, match="names tool-gateway"):
        Channels("policy", signer, site.telemetry("policy"), GrpcSection())


def test_a_service_token_is_renewed_before_it_ends(keys):
    clock = ManualClock()
    tokens = ServiceTokens(TokenSigner(keys.gateway, clock, UlidSource(clock)), clock)
    first = tokens.token("policy")
    assert tokens.token("memoryfs") != first
    clock.advance(SERVICE_TTL_S_MAX / 2)
    assert tokens.token("policy") == first
    clock.advance(SERVICE_TTL_S_MAX / 4)
    assert tokens.token("policy") != first
