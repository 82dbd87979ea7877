"""The tool gateway as a process or in this one, with the real policy service and OPA, and callers with real tokens."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc, reviews_pb2, reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2 as pb
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import Identity, TokenSigner
from memoryos_postgres.keyring import create_epoch_key
from memoryos_testing.opa import OpaServer
from memoryos_testing.postgres import Clone

IDS = UlidSource()
CLOCK = SystemClock()
SERVICES = ("tool-gateway", "memoryfs", "harness", "policy")
START_S_MAX = 30.0
Metadata = tuple[tuple[str, str], ...]


@dataclass
class Caller:
    """Somebody with a token; `service` is the service that calls on their behalf, if any."""

    world: "World"
    metadata: Metadata

    @property
    def gateway(self) -> tool_gateway_pb2_grpc.ToolGatewayStub:
        return tool_gateway_pb2_grpc.ToolGatewayStub(self.world.channel("tool-gateway"))

    @property
    def reviews(self) -> reviews_pb2_grpc.ReviewsStub:
        return reviews_pb2_grpc.ReviewsStub(self.world.channel("policy"))

    @property
    def decisions(self) -> policy_pb2_grpc.PolicyStub:
        return policy_pb2_grpc.PolicyStub(self.world.channel("policy"))

    async def call(self, skill: str, request_id: str = "r1", *, epoch: int = 0, **arguments: Any) -> pb.Call:
        return await self.raw(skill, json.dumps(arguments).encode(), request_id, epoch=epoch)

    async def raw(self, skill: str, arguments: bytes, request_id: str = "r1", *, epoch: int = 0) -> pb.Call:
        request = pb.CallSkillRequest(skill=skill, arguments_json=arguments, request_id=request_id, lease_epoch=epoch)
        answer = await self.gateway.CallSkill(request, metadata=self.metadata, timeout=30, wait_for_ready=True)
        return answer.call

    async def get(self, call_id: str) -> pb.Call:
        return (await self.gateway.GetCall(pb.GetCallRequest(id=call_id), metadata=self.metadata, timeout=30)).call

    async def skills(self, **more: Any) -> pb.ListSkillsResponse:
        return await self.gateway.ListSkills(pb.ListSkillsRequest(**more), metadata=self.metadata, timeout=30)

    async def reasons(self, decision_id: str) -> list[str]:
        """Codes of a decision's reasons, as an auditor sees them."""
        answer = await self.decisions.GetDecision(
            policy_pb2.GetDecisionRequest(id=decision_id), metadata=self.metadata, timeout=30
        )
        return [reason.code for reason in answer.decision.reasons]

    async def approve(self, review_id: str, verdict: int = reviews_pb2.VERDICT_APPROVE) -> None:
        request = reviews_pb2.ResolveReviewRequest(id=review_id, verdict=verdict, request_id=review_id)
        await self.reviews.ResolveReview(request, metadata=self.metadata, timeout=30)


@dataclass
class World:
    """Keys, configuration, folder and processes; `tenant` is the test's own."""

    folder: Path
    issuer: TokenSigner
    services: dict[str, TokenSigner]
    config: dict[str, Any]
    tenant: str = "acme"
    instance: str = "tool-gateway"
    """Which gateway callers reach: tests that kill have one of their own."""
    channels: dict[str, grpc.aio.Channel] = field(default_factory=dict)

    def address(self, service: str) -> str:
        return f"127.0.0.1:{int(self.port_file(service).read_text())}"

    def port_file(self, service: str) -> Path:
        return self.folder / f"{self.instance if service == 'tool-gateway' else service}.port"

    def channel(self, service: str) -> grpc.aio.Channel:
        address = self.address(service)
        if address not in self.channels:
            self.channels[address] = grpc.aio.insecure_channel(address)
        return self.channels[address]

    def caller(
        self, user: str = "u1", *, tenant: str = "", roles: Iterable[str] = ("agent",), groups: Iterable[str] = (),
        chain: tuple[str, ...] = ("helper",), service: str | None = None, **more: Any,
    ) -> Caller:  # fmt: skip
        identity = Identity(
            tenant=tenant or self.tenant, user=user, roles=frozenset(roles), groups=frozenset(groups), chain=chain,
            **({"session_id": "ses_1", "task_id": "task_1"} | more),
        )  # fmt: skip
        metadata = [("authorization", f"Bearer {self.issuer.subject(identity, audience=['memoryos'], ttl_s=3600)}")]
        if service:
            metadata.append(("x-memoryos-service-token", self.services[service].service("tool-gateway")))
        return Caller(self, tuple(metadata))

    def reviewer(self, user: str = "boss") -> Caller:
        return self.caller(user, roles=("reviewer",), groups=("finance",), chain=())

    def auditor(self) -> Caller:
        return self.caller("aud", roles=("auditor",), chain=())

    @asynccontextmanager
    async def process(self, service: str, module: str, *, crash: str = "", **config: Any) -> AsyncIterator[Process]:
        """Run a service as a process until the block ends; it may die earlier of its crash point."""
        port_file = self.port_file(service)
        port_file.unlink(missing_ok=True)
        config_file = port_file.with_suffix(".yaml")
        config_file.write_text(yaml.safe_dump(self.config | config))
        environ = os.environ | {
            "MEMORYOS_CONFIG": str(config_file),
            "MEMORYOS_CRASH_POINT": crash,
            "MEMORYOS_GRPC__PORT_FILE": str(port_file),
            "MEMORYOS_IDENTITY__SERVICE_KEY_FILE": str(self.folder / f"{service}.pem"),
        }
        log = port_file.with_suffix(".log")
        with log.open("ab") as stream:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, env=environ, stdout=stream, stderr=stream
            )
        try:
            async with asyncio.timeout(START_S_MAX):
                while not port_file.exists():
                    assert process.returncode is None, log.read_text()[-3000:]
                    await asyncio.sleep(0.02)
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), 15)
                except TimeoutError:
                    process.kill()
            await process.wait()

    @asynccontextmanager
    async def gateway(self, *, crash: str = "", **config: Any) -> AsyncIterator[Process]:
        async with self.process("tool-gateway", "memoryos_toolgateway.main", crash=crash, **config) as process:
            yield process

    async def close(self) -> None:
        for channel in self.channels.values():
            await channel.close()

    def log(self, service: str = "tool-gateway") -> str:
        return self.port_file(service).with_suffix(".log").read_text()


def make_world(folder: Path, database: Clone, opa: OpaServer, endpoints: dict[str, str]) -> World:
    """Write keys and secrets, and say the configuration that all processes share."""
    issuer = PrivateKey.generate("memoryos-dev", Use.SUBJECT)
    services = {name: PrivateKey.generate(name, Use.SERVICE) for name in SERVICES}
    KeySet([issuer.public, *(key.public for key in services.values())]).save(folder / "keys.json")
    for name, key in services.items():
        key.save(folder / f"{name}.pem")
    create_epoch_key(folder / "epoch.key")
    (folder / "skills").mkdir()
    config = {
        "grpc": {"drain_s": 5},
        "telemetry": {"span_dir": str(folder / "spans"), "log_level": "INFO"},
        "postgres": json.loads(database.section.model_dump_json()),
        "identity": {"keys_file": str(folder / "keys.json")},
        "sealing": {"epoch_key_file": str(folder / "epoch.key")},
        "peers": {"policy": "127.0.0.1:1", "memoryfs": "127.0.0.1:1"},
        "policy": {
            "opa_port": opa.port, "opa_token_file": str(opa.token_file), "opa_timeout_s": 5, "probe_interval_s": 0.1,
        },
        "tool-gateway": {
            "skill_dirs": [str(folder / "skills")], "builtin_skills": False, "endpoints": endpoints,
            "networks": ["127.0.0.0/8"],
            "sweep_interval_s": 0.2, "probe_interval_s": 0.1,
        },
    }  # fmt: skip
    signers = {name: TokenSigner(key, CLOCK, IDS) for name, key in services.items()}
    return World(folder, TokenSigner(issuer, CLOCK, IDS), signers, config)


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """The ErrorInfo reason of a failed call."""
    status = rpc_status.from_call(error)
    assert status is not None, error.details()
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            return info.reason
    return ""


@asynccontextmanager
async def refused(reason: str) -> AsyncIterator[None]:
    """Expect the block to be refused with this reason."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield
    assert reason_of(caught.value) == reason, caught.value.details()
