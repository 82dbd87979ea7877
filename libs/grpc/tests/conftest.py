"""Real servers on free loopback ports, real keys, real span files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from memoryos.erasure.v1 import erasure_pb2_grpc  # noqa: F401  registers its service
from memoryos.harness.v1 import tasks_pb2_grpc
from memoryos.jobs.v1 import jobs_pb2_grpc  # noqa: F401  registers its service
from memoryos.memoryfs.v1 import memoryfs_pb2_grpc
from memoryos.policy.v1 import reviews_pb2_grpc
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import EDGE_AUDIENCE, Identity, TokenSigner, TokenVerifier
from memoryos_grpc import METHOD_RULES, Caller, Channels, DenialKind, GrpcSection, MethodRule, Server
from memoryos_telemetry import Telemetry, TelemetrySection
from memoryos_testing.servicers import completed

IDENTITY = Identity(tenant="acme", user="u42", roles=frozenset({"user", "agent", "reviewer"}))


@completed("memoryos.memoryfs.v1.MemoryFS", lambda self, request, context, empty: self._run(request, context, empty))
class ScriptedMemoryFS(memoryfs_pb2_grpc.MemoryFSServicer):
    """MemoryFS whose methods do what a test puts into `behaviour`."""

    def __init__(self) -> None:
        self.behaviour: Callable[..., Any] | None = None
        self.requests: list[Any] = []

    async def _run(self, request: Any, context: Any, empty: Any) -> Any:
        self.requests.append(request)
        if self.behaviour is None:
            return empty
        return await self.behaviour(request, context) or empty


async def _nothing(servicer: Any, request: Any, context: Any, empty: Any) -> Any:
    return empty


@completed("memoryos.harness.v1.Tasks", _nothing)
class ScriptedTasks(tasks_pb2_grpc.TasksServicer):
    """Tasks whose stream does what a test puts into `stream`; all else answers with nothing."""

    def __init__(self) -> None:
        self.stream: Callable[..., Any] | None = None

    async def WatchTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
        if self.stream is not None:
            async for event in self.stream(request, context):
                yield event


@completed("memoryos.policy.v1.Reviews", _nothing)
class EmptyReviews(reviews_pb2_grpc.ReviewsServicer):
    """Reviews that answer with nothing."""


@dataclass
class RecordedDenials:
    """An audit sink that remembers."""

    denials: list[tuple[DenialKind, str, Caller | None, str]] = field(default_factory=list)

    async def denied(self, kind: DenialKind, method: str, caller: Caller | None, reason: str) -> None:
        self.denials.append((kind, method, caller, reason))


@dataclass
class Keys:
    """A dev issuer and two services, trusted; and a stranger, not."""

    subject: PrivateKey
    gateway: PrivateKey
    memoryfs: PrivateKey
    stranger: PrivateKey

    def key_set(self) -> KeySet:
        return KeySet([self.subject.public, self.gateway.public, self.memoryfs.public])

    def signer(self, key: PrivateKey) -> TokenSigner:
        return TokenSigner(key, SystemClock(), UlidSource())

    def token(
        self, identity: Identity = IDENTITY, *, audience: tuple[str, ...] = (EDGE_AUDIENCE,), ttl_s: int = 600
    ) -> str:
        return self.signer(self.subject).subject(identity, audience=audience, ttl_s=ttl_s)


@dataclass
class Site:
    """Servers of one test, with the parts they share."""

    keys: Keys
    folder: Path
    audit: RecordedDenials
    _stack: AsyncExitStack

    @property
    def spans(self) -> Path:
        return self.folder / "spans"

    def telemetry(self, service: str) -> Telemetry:
        telemetry = Telemetry(TelemetrySection(span_dir=self.spans), service, SystemClock())
        self._stack.callback(telemetry.shutdown)
        return telemetry

    def server(
        self,
        service: str,
        servicers: Any,
        *,
        telemetry: Telemetry | None = None,
        rules: Mapping[str, MethodRule] = METHOD_RULES,
        **limits: Any,
    ) -> Server:
        return Server(
            service,
            servicers,
            verifier=TokenVerifier(self.keys.key_set(), service, SystemClock()),
            telemetry=telemetry or self.telemetry(service),
            config=GrpcSection(**limits),
            audit=self.audit,
            rules=rules,
        )

    async def start(self, service: str, servicers: Any, **options: Any) -> Server:
        server = self.server(service, servicers, **options)
        await server.start()
        self._stack.push_async_callback(server.stop, 0)
        return server

    def channels(self, service: str, *, telemetry: Telemetry | None = None, **limits: Any) -> Channels:
        key = {"tool-gateway": self.keys.gateway, "memoryfs": self.keys.memoryfs}.get(service)
        channels = Channels(
            service, key and self.keys.signer(key), telemetry or self.telemetry(service), GrpcSection(**limits)
        )
        self._stack.push_async_callback(channels.close)
        return channels

    def bare_channel(self, server: Server, **options: Any) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(server.address, options=[("grpc.enable_retries", 0), *options.items()])
        self._stack.push_async_callback(channel.close)
        return channel


@pytest.fixture(scope="session")
def keys() -> Keys:
    return Keys(
        PrivateKey.generate("memoryos-dev", Use.SUBJECT),
        PrivateKey.generate("tool-gateway", Use.SERVICE),
        PrivateKey.generate("memoryfs", Use.SERVICE),
        PrivateKey.generate("memoryos-dev", Use.SUBJECT),
    )


@pytest.fixture
async def site(keys: Keys, tmp_path: Path) -> AsyncIterator[Site]:
    async with _site(keys, tmp_path) as site:
        yield site


@asynccontextmanager
async def _site(keys: Keys, folder: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        yield Site(keys, folder, RecordedDenials(), stack)


@pytest.fixture
def memoryfs() -> ScriptedMemoryFS:
    return ScriptedMemoryFS()


@pytest.fixture
def tasks() -> ScriptedTasks:
    return ScriptedTasks()


@pytest.fixture
async def memory_server(site: Site, memoryfs: ScriptedMemoryFS) -> Server:
    return await site.start("memoryfs", [(memoryfs_pb2_grpc.add_MemoryFSServicer_to_server, memoryfs)])


@pytest.fixture
async def task_server(site: Site, tasks: ScriptedTasks) -> Server:
    return await site.start("harness", [(tasks_pb2_grpc.add_TasksServicer_to_server, tasks)])


@pytest.fixture
async def review_server(site: Site) -> Server:
    return await site.start("policy", [(reviews_pb2_grpc.add_ReviewsServicer_to_server, EmptyReviews())])


@pytest.fixture
def bearer(keys: Keys) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {keys.token()}"),)
