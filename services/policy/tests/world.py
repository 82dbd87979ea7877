"""A policy service of one test, and callers with real tokens."""

import asyncio
import json
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
from memoryos.policy.v1 import policy_pb2, policy_pb2_grpc, reviews_pb2_grpc
from memoryos_core.canonical import action_digest, canonical_json
from memoryos_core.clock import SystemClock
from memoryos_core.config import load
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import Identity, TokenSigner
from memoryos_policy.app import SECTIONS, serve
from memoryos_postgres.keyring import create_epoch_key
from memoryos_testing.opa import opa_binary
from memoryos_testing.postgres import Clone

IDS = UlidSource()
CLOCK = SystemClock()


@dataclass
class Caller:
    """Somebody with tokens; `service` None is a person or agent at the edge."""

    channel: grpc.aio.Channel
    identity: Identity
    metadata: tuple[tuple[str, str], ...]
    policy: policy_pb2_grpc.PolicyStub = field(init=False)
    reviews: reviews_pb2_grpc.ReviewsStub = field(init=False)

    def __post_init__(self) -> None:
        self.policy = policy_pb2_grpc.PolicyStub(self.channel)
        self.reviews = reviews_pb2_grpc.ReviewsStub(self.channel)

    def request(
        self,
        skill: str,
        arguments: dict[str, Any],
        *,
        call_id: str | None = None,
        effect_class: str = "NON_IDEMPOTENT",
        resource: policy_pb2.Resource | None = None,
    ) -> policy_pb2.DecideRequest:
        """A call as the gateway would ask about it."""
        canonical = canonical_json(arguments)
        return policy_pb2.DecideRequest(
            purpose=policy_pb2.PURPOSE_CALL,
            action=action(skill, effect_class),
            resource=resource,
            arguments_json=canonical,
            action_digest=self.digest(skill, canonical),
            context=policy_pb2.CallContext(call_id=call_id or IDS.new("call"), attempt=1),
        )

    def digest(self, skill: str, canonical: bytes) -> str:
        who = self.identity
        return action_digest(
            tenant=who.tenant, user=who.user, chain=who.chain, skill=skill, version="1",
            definition_digest="d" * 64, arguments=canonical,
        )  # fmt: skip

    async def decide(self, skill: str, arguments: dict[str, Any], **more: Any) -> policy_pb2.Decision:
        return await self.send(self.request(skill, arguments, **more))

    async def send(self, request: policy_pb2.DecideRequest) -> policy_pb2.Decision:
        answer = await self.policy.Decide(request, metadata=self.metadata, timeout=20)
        decision: policy_pb2.Decision = answer.decision
        return decision


def action(skill: str, effect_class: str = "NON_IDEMPOTENT") -> policy_pb2.Action:
    return policy_pb2.Action(
        skill=skill, version="1", definition_digest="d" * 64, permissions=["write"], risk="high", opened=True,
        egress=policy_pb2.EGRESS_NONE,
        effect_class=policy_pb2.EffectClass.Value(f"EFFECT_CLASS_{effect_class}"),
    )  # fmt: skip


@dataclass
class World:
    """Keys, configuration and folder of one test."""

    folder: Path
    issuer: TokenSigner
    services: dict[str, TokenSigner]
    config_file: Path
    opa_token_file: Path
    channels: list[grpc.aio.Channel] = field(default_factory=list)

    @property
    def port_file(self) -> Path:
        return self.folder / "policy.port"

    def caller(
        self, user: str = "u1", *, tenant: str = "acme", roles: Iterable[str] = ("agent",), groups: Iterable[str] = (),
        chain: tuple[str, ...] = (), service: str | None = None, port: int | None = None,
    ) -> Caller:  # fmt: skip
        identity = Identity(
            tenant=tenant, user=user, roles=frozenset(roles), groups=frozenset(groups), chain=chain,
            session_id="ses_1", task_id="task_1",
        )  # fmt: skip
        token = self.issuer.subject(identity, audience=["memoryos"], ttl_s=3600)
        metadata = [("authorization", f"Bearer {token}")]
        if service:
            metadata.append(("x-memoryos-service-token", self.services[service].service("policy")))
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port or int(self.port_file.read_text())}")
        self.channels.append(channel)
        return Caller(channel, identity, tuple(metadata))

    def gateway(self, user: str = "u1", **more: Any) -> Caller:
        """The tool-gateway, on behalf of an agent of a user."""
        return self.caller(user, **{"chain": ("helper",), "service": "tool-gateway", **more})

    def reviewer(self, user: str = "r1", *, groups: Iterable[str] = ("finance",), **more: Any) -> Caller:
        return self.caller(user, **{"roles": ("reviewer",), "groups": groups, **more})

    def auditor(self, **more: Any) -> Caller:
        return self.caller("aud", **{"roles": ("auditor",), **more})


def make_world(folder: Path, database: Clone, opa_port: int) -> World:
    """Write keys, secrets and one configuration file."""
    issuer = PrivateKey.generate("memoryos-dev", Use.SUBJECT)
    services = {name: PrivateKey.generate(name, Use.SERVICE) for name in ("tool-gateway", "memoryfs", "harness")}
    KeySet([issuer.public, *(key.public for key in services.values())]).save(folder / "keys.json")
    create_epoch_key(folder / "epoch.key")
    config = {
        "grpc": {"port_file": str(folder / "policy.port"), "drain_s": 5},
        "telemetry": {"span_dir": str(folder / "spans"), "log_level": "WARNING"},
        "postgres": json.loads(database.section.model_dump_json()),
        "identity": {"keys_file": str(folder / "keys.json")},
        "sealing": {"epoch_key_file": str(folder / "epoch.key")},
        "policy": {
            "opa_port": opa_port, "opa_token_file": str(folder / "opa.token"), "opa_timeout_s": 5,
            "probe_interval_s": 0.05, "opa_binary": str(opa_binary()),
        },
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return World(
        folder=folder,
        issuer=TokenSigner(issuer, CLOCK, IDS),
        services={name: TokenSigner(key, CLOCK, IDS) for name, key in services.items()},
        config_file=folder / "config.yaml",
        opa_token_file=folder / "opa.token",
    )


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[None]:
    """Run the service inside this process until the block ends."""
    config = load(SECTIONS, file=world.config_file, environ={})
    stop = asyncio.Event()
    task = asyncio.create_task(serve(config, stop))
    try:
        async with asyncio.timeout(20):
            while not world.port_file.exists():
                if task.done():
                    await task
                await asyncio.sleep(0.01)
        yield
    finally:
        for channel in world.channels:
            await channel.close()
        stop.set()
        await task


@asynccontextmanager
async def replica(world: World, **policy: Any) -> AsyncIterator[int]:
    """Run another replica beside the one that runs, with nothing in its caches, and give its port."""
    config = yaml.safe_load(world.config_file.read_text())
    port_file = world.folder / "replica.port"
    config["grpc"]["port_file"] = str(port_file)
    config["policy"].update(policy)
    file = world.folder / "replica.yaml"
    file.write_text(yaml.safe_dump(config))
    stop = asyncio.Event()
    task = asyncio.create_task(serve(load(SECTIONS, file=file, environ={}), stop))
    try:
        async with asyncio.timeout(20):
            while not port_file.exists():
                assert not task.done(), task
                await asyncio.sleep(0.01)
        yield int(port_file.read_text())
    finally:
        stop.set()
        await task


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """The ErrorInfo reason of a failed call."""
    status = rpc_status.from_call(error)
    assert status is not None
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
