"""The in-memory adapters and the gRPC adapters keep the same contracts."""

import pytest
from memoryos.memoryfs.v1 import memoryfs_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import Identity, TokenSigner, TokenVerifier
from memoryos_grpc import Channels, GrpcSection, Server
from memoryos_harness.adapters.grpc_memory import GrpcMemory
from memoryos_harness.adapters.grpc_tools import GrpcTools
from memoryos_telemetry import Telemetry, TelemetrySection

from .contracts import PLACE, MemoryReaderContract, ToolBoxContract
from .peers import FakeGateway, FakeMemoryFS, InMemoryMemory, InMemoryTools

CLOCK = SystemClock()
IDS = UlidSource(CLOCK)


@pytest.fixture
def keys():
    return PrivateKey.generate("memoryos-harness", Use.SUBJECT), PrivateKey.generate("harness", Use.SERVICE)


@pytest.fixture
def token(keys):
    signer = TokenSigner(keys[0], CLOCK, IDS)

    def mint() -> str:
        identity = Identity(
            tenant="acme", user="u42", roles=frozenset({"agent"}), chain=("helper",), task_id="task_1",
            read_paths=(PLACE,), write_paths=(),
        )  # fmt: skip
        return signer.subject(identity, audience=["memoryfs", "tool-gateway", "policy"], ttl_s=300)

    return mint


@pytest.fixture
def verify(keys):
    key_set = KeySet([key.public for key in keys])
    return {name: TokenVerifier(key_set, name, CLOCK) for name in ("tool-gateway", "memoryfs")}


@pytest.fixture
def tools(verify):
    return InMemoryTools(verify["tool-gateway"].subject)


@pytest.fixture
def memory(verify):
    return InMemoryMemory(verify["memoryfs"].subject)


@pytest.fixture
async def channels(tmp_path, keys):
    telemetry = Telemetry(TelemetrySection(span_dir=tmp_path / "spans"), "harness", CLOCK)
    opened = Channels("harness", TokenSigner(keys[1], CLOCK, IDS), telemetry, GrpcSection(), CLOCK)
    yield opened, telemetry
    await opened.close()
    telemetry.shutdown()


class TestInMemoryTools(ToolBoxContract):
    @pytest.fixture
    def toolbox(self, tools):
        return tools


class TestGrpcTools(ToolBoxContract):
    @pytest.fixture
    async def toolbox(self, tools, verify, channels):
        opened, telemetry = channels
        server = Server(
            "tool-gateway",
            [(tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server, FakeGateway(tools))],
            verifier=verify["tool-gateway"], telemetry=telemetry, config=GrpcSection(drain_s=0),
        )  # fmt: skip
        await server.start()
        yield GrpcTools(opened.open(server.address, "tool-gateway"))
        await server.stop(0)


class TestInMemoryMemory(MemoryReaderContract):
    @pytest.fixture
    def reader(self, memory):
        return memory


class TestGrpcMemory(MemoryReaderContract):
    @pytest.fixture
    async def reader(self, memory, verify, channels):
        opened, telemetry = channels
        server = Server(
            "memoryfs",
            [(memoryfs_pb2_grpc.add_MemoryFSServicer_to_server, FakeMemoryFS(memory))],
            verifier=verify["memoryfs"], telemetry=telemetry, config=GrpcSection(drain_s=0),
        )  # fmt: skip
        await server.start()
        yield GrpcMemory(opened.open(server.address, "memoryfs"), IDS)
        await server.stop(0)
