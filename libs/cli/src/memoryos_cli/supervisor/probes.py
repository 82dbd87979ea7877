"""Whether a child serves, asked the way its users would."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memoryos_cli.supervisor.child import Probe

PROBE_TIMEOUT_S: Final = 1.0


def grpc_health(address: str) -> Probe:
    """Give a probe that is true when the server at `address` reports SERVING."""

    async def probe() -> bool:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=PROBE_TIMEOUT_S)
            except grpc.aio.AioRpcError:
                return False
        serving: bool = answer.status == health_pb2.HealthCheckResponse.SERVING
        return serving

    return probe


def http_ok(host: str, port: int, path: str) -> Probe:
    """Give a probe that is true when GET `path` answers 200."""

    async def probe() -> bool:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                    await writer.drain()
                    head = await reader.readline()
                finally:
                    writer.close()
                return b" 200 " in head
        return False

    return probe


def always() -> Probe:
    """Give a probe that is always true, for programs without a port."""

    async def probe() -> bool:
        return True

    return probe
