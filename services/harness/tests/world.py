"""A harness of one test: real PostgreSQL and gRPC, a scripted model over HTTP, memory and tools in memory over gRPC."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from memoryos.harness.v1 import sessions_pb2, sessions_pb2_grpc, tasks_pb2, tasks_pb2_grpc
from memoryos.memoryfs.v1 import memoryfs_pb2_grpc
from memoryos.policy.v1 import reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_core.clock import SystemClock
from memoryos_core.config import load
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import Identity, TokenSigner, TokenVerifier
from memoryos_grpc import GrpcSection, Server, remote_error
from memoryos_harness.app import SECTIONS, WORKER_SECTIONS, serve, work
from memoryos_models.scripted import ScriptedCall, ScriptedReply, ScriptedServer
from memoryos_postgres.keyring import create_epoch_key
from memoryos_telemetry import Telemetry, TelemetrySection
from memoryos_testing.postgres import Clone

from .peers import FakeGateway, FakeMemoryFS, FakeReviews, InMemoryMemory, InMemoryReviews, InMemoryTools

IDS = UlidSource()
CLOCK = SystemClock()
ENDED = frozenset({tasks_pb2.TASK_STATE_SUCCEEDED, tasks_pb2.TASK_STATE_DEAD, tasks_pb2.TASK_STATE_CANCELLED})

AGENTS: Mapping[str, Mapping[str, Any]] = {
    "helper": {
        "instructions": "You help on line A.",
        "skills": ["mes.takt", "ticket.delete", "refund.pay", "mail.send", "slow.report"],
        "memory": {
            "read": ["/tenants/{tenant}/memory/episodic/{user}"],
            "write": ["/tenants/{tenant}/memory/episodic/{user}"],
            "recall": [{"path": "/tenants/{tenant}/memory/episodic/{user}", "top_k": 5}],
        },
        "limits": {"seconds": 120},
    },
    "broad": {
        "instructions": "You recall much.",
        "memory": {
            "read": ["/tenants/{tenant}/memory/episodic/{user}"],
            "recall": [{"path": "/tenants/{tenant}/memory/episodic/{user}", "top_k": 50}],
        },
    },
    "plain": {"instructions": "You answer."},
    "recollecting": {"instructions": "You remember.", "context": {"recall_sessions": True, "turns": 2}},
    "grabby": {
        "instructions": "You read everything.",
        "memory": {"read": ["/tenants/{tenant}/memory/semantic"]},
    },
    "boss": {
        "instructions": "You let others work.",
        "memory": {"read": ["/tenants/{tenant}/memory/episodic/{user}"]},
        "skills": ["mes.takt"],
        "agents": ["mid", "low", "scout", "grabby", "lister", "short"],
        "limits": {"seconds": 120, "tokens": 10_000, "calls": 12, "fan_out": 4},
    },
    "mid": {
        "instructions": "You stand between.",
        "memory": {"read": ["/tenants/{tenant}/memory/episodic/{user}"]},
        "agents": ["low", "scout"],
        "limits": {"seconds": 120, "depth": 1},
    },
    "low": {"instructions": "You stand below.", "agents": ["lister"]},
    "scout": {
        "instructions": "You look and say.",
        "skills": ["mes.takt", "refund.pay", "slow.report"],
        "memory": {"read": ["/tenants/{tenant}/memory/episodic/{user}/scout"]},
    },
    "lister": {
        "instructions": "You answer in JSON.",
        "output_schema": {"type": "object", "properties": {"lines": {"type": "array"}}, "required": ["lines"]},
    },
    "short": {
        "instructions": "You are short of everything.",
        "skills": ["mes.takt"],
        "limits": {"steps": 5, "calls": 1, "attempts": 2, "seconds": 60},
    },
}


def wait_s(seconds: float) -> float:
    """A bound for waits, generous where the machine is shared."""
    return seconds * 4


@dataclass
class Client:
    """Somebody with a token."""

    sessions: sessions_pb2_grpc.SessionsStub
    tasks: tasks_pb2_grpc.TasksStub
    metadata: tuple[tuple[str, str], ...]
    session_id: str = ""

    async def start_session(self) -> str:
        answer = await self.sessions.CreateSession(
            sessions_pb2.CreateSessionRequest(request_id=IDS.new("evt")), metadata=self.metadata
        )
        self.session_id = answer.session.id
        return self.session_id

    async def submit(
        self, text: str, agent: str = "helper", *, request_id: str | None = None, session_id: str | None = None
    ) -> tasks_pb2.Task:
        if not self.session_id and session_id is None:
            await self.start_session()
        answer = await self.tasks.SubmitTask(
            tasks_pb2.SubmitTaskRequest(
                agent=agent,
                session_id=session_id or self.session_id,
                input=text,
                request_id=request_id or IDS.new("evt"),
            ),
            metadata=self.metadata,
        )
        return answer.task

    async def get(self, task_id: str) -> tasks_pb2.Task:
        answer = await self.tasks.GetTask(tasks_pb2.GetTaskRequest(id=task_id), metadata=self.metadata)
        return answer.task

    async def cancel(self, task_id: str, request_id: str | None = None) -> tasks_pb2.Task:
        answer = await self.tasks.CancelTask(
            tasks_pb2.CancelTaskRequest(id=task_id, request_id=request_id or IDS.new("evt")), metadata=self.metadata
        )
        return answer.task

    async def steps(self, task_id: str) -> list[tasks_pb2.Step]:
        answer = await self.tasks.ListSteps(
            tasks_pb2.ListStepsRequest(task_id=task_id, page_size=500), metadata=self.metadata
        )
        return list(answer.steps)

    async def watch(self, task_id: str, after: int = 0) -> list[tasks_pb2.WatchTaskResponse]:
        """All events up to the terminal one."""
        async with asyncio.timeout(wait_s(20)):
            call = self.tasks.WatchTask(
                tasks_pb2.WatchTaskRequest(id=task_id, after_sequence=after), metadata=self.metadata
            )
            return [event async for event in call]

    async def ended(self, task_id: str, bound_s: float = 20) -> tasks_pb2.Task:
        return await self.until(task_id, lambda task: task.state in ENDED, bound_s)

    async def until(self, task_id: str, met: Callable[[tasks_pb2.Task], bool], bound_s: float = 20) -> tasks_pb2.Task:
        async def look() -> tasks_pb2.Task | None:
            task = await self.get(task_id)
            return task if met(task) else None

        return await eventually(look, bound_s)

    async def messages(self) -> list[sessions_pb2.Message]:
        answer = await self.sessions.ListMessages(
            sessions_pb2.ListMessagesRequest(session_id=self.session_id, page_size=500), metadata=self.metadata
        )
        return list(answer.messages)


@dataclass
class World:
    """Keys, folder, peers and processes of one test."""

    folder: Path
    database: Clone
    issuer: TokenSigner
    model: ScriptedServer
    tools: InMemoryTools
    memory: InMemoryMemory
    reviews: InMemoryReviews
    config_file: Path
    channels: list[grpc.aio.Channel] = field(default_factory=list)
    workers: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def port_file(self) -> Path:
        return self.folder / "harness.port"

    def client(
        self,
        user: str = "u42",
        *,
        tenant: str = "acme",
        roles: Iterable[str] = ("user",),
        **claims: Any,
    ) -> Client:
        identity = Identity(tenant=tenant, user=user, roles=frozenset(roles), **claims)
        token = self.issuer.subject(identity, audience=["memoryos"], ttl_s=3600)
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{int(self.port_file.read_text())}")
        self.channels.append(channel)
        return Client(
            sessions_pb2_grpc.SessionsStub(channel),
            tasks_pb2_grpc.TasksStub(channel),
            (("authorization", f"Bearer {token}"),),
        )

    @asynccontextmanager
    async def worker(self, **overrides: Any) -> AsyncIterator[None]:
        """A worker inside this process until the block ends."""
        stop = asyncio.Event()
        environ = {f"MEMORYOS_HARNESS__{name.upper()}": str(value) for name, value in overrides.items()}
        config = load(WORKER_SECTIONS, file=self.config_file, environ=environ)
        task = asyncio.create_task(work(config, stop))
        try:
            yield
        finally:
            stop.set()
            await task

    async def worker_process(self, *, crash_point: str = "", name: str = "worker", **overrides: Any) -> Any:
        """A worker as a process of its own."""
        environ = {f"MEMORYOS_HARNESS__{key.upper()}": str(value) for key, value in overrides.items()}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "memoryos_harness.worker",
            env={
                "PATH": os.defpath,
                # The mutation run tests a copy of the tree.
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "MEMORYOS_CONFIG": str(self.config_file),
                "MEMORYOS_HARNESS__WORKER_NAME": name,
                "MEMORYOS_CRASH_POINT": crash_point,
                **environ,
            },
            stdout=(self.folder / "worker.log").open("ab"),
            stderr=asyncio.subprocess.STDOUT,
        )
        self.workers.append(process)
        return process

    async def died(self, process: asyncio.subprocess.Process, bound_s: float = 30) -> None:
        """Wait until a process was killed by its crash point."""
        async with asyncio.timeout(wait_s(bound_s)):
            code = await process.wait()
        assert code == -signal.SIGKILL, (self.folder / "worker.log").read_text()[-4000:]

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close()
        for process in self.workers:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def eventually(look: Callable[[], Awaitable[Any]], bound_s: float = 20) -> Any:
    """The first thing that `look` gives that is not None or False, within a bound."""
    async with asyncio.timeout(wait_s(bound_s)):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.02)


@asynccontextmanager
async def make_world(folder: Path, database: Clone) -> AsyncIterator[World]:
    """Keys, agent files, configuration; the model and the peers run until the block ends."""
    dev = PrivateKey.generate("memoryos-dev", Use.SUBJECT)
    tasks = PrivateKey.generate("memoryos-harness", Use.SUBJECT)
    service = PrivateKey.generate("harness", Use.SERVICE)
    keys = KeySet([dev.public, tasks.public, service.public])
    keys.save(folder / "keys.json")
    tasks.save(folder / "task.pem")
    service.save(folder / "service.pem")
    create_epoch_key(folder / "epoch.key")
    write_agents(folder / "agents")
    gateway_tokens = TokenVerifier(keys, "tool-gateway", CLOCK)
    memory_tokens = TokenVerifier(keys, "memoryfs", CLOCK)
    tools, memory = InMemoryTools(gateway_tokens.subject), InMemoryMemory(memory_tokens.subject)
    telemetry = Telemetry(TelemetrySection(span_dir=folder / "spans"), "peers", CLOCK)
    gateway = Server(
        "tool-gateway",
        [(tool_gateway_pb2_grpc.add_ToolGatewayServicer_to_server, FakeGateway(tools))],
        verifier=gateway_tokens, telemetry=telemetry, config=GrpcSection(drain_s=0),
    )  # fmt: skip
    memoryfs = Server(
        "memoryfs",
        [(memoryfs_pb2_grpc.add_MemoryFSServicer_to_server, FakeMemoryFS(memory))],
        verifier=memory_tokens, telemetry=telemetry, config=GrpcSection(drain_s=0),
    )  # fmt: skip
    policy_tokens = TokenVerifier(keys, "policy", CLOCK)
    reviews = InMemoryReviews(replace(tools, verify=policy_tokens.subject))
    policy = Server(
        "policy",
        [(reviews_pb2_grpc.add_ReviewsServicer_to_server, FakeReviews(reviews))],
        verifier=policy_tokens, telemetry=telemetry, config=GrpcSection(drain_s=0),
    )  # fmt: skip
    for server in (gateway, memoryfs, policy):
        await server.start()
    with ScriptedServer(takt_script) as model:
        config = {
            "grpc": {"port_file": str(folder / "harness.port"), "drain_s": 1},
            "telemetry": {"span_dir": str(folder / "spans"), "log_level": "WARNING"},
            "postgres": json.loads(database.section.model_dump_json()),
            "identity": {
                "keys_file": str(folder / "keys.json"),
                "service_key_file": str(folder / "service.pem"),
                "task_key_file": str(folder / "task.pem"),
            },
            "sealing": {"epoch_key_file": str(folder / "epoch.key")},
            "peers": {"memoryfs": memoryfs.address, "tool_gateway": gateway.address, "policy": policy.address},
            "models": {"chat_url": model.base_url, "chat_model": "scripted"},
            "harness": {
                "agents_dir": str(folder / "agents"),
                "lease_s": 1.5, "heartbeat_s": 0.3, "sweep_s": 0.1, "queue_poll_s": 0.1, "wake_up_grace_s": 0.5,
                "lost_worker_s": 2, "retry_base_s": 0.05, "retry_max_s": 0.5,
                "review_poll_min_s": 0.1, "review_poll_max_s": 0.3, "drain_s": 5,
            },
        }  # fmt: skip
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        made = World(
            folder=folder,
            database=database,
            issuer=TokenSigner(dev, CLOCK, IDS),
            model=model,
            tools=tools,
            memory=memory,
            reviews=reviews,
            config_file=folder / "config.yaml",
        )
        try:
            yield made
        finally:
            await made.close()
            for server in (gateway, memoryfs, policy):
                await server.stop(0)
            telemetry.shutdown()


def write_agents(folder: Path, agents: Mapping[str, Mapping[str, Any]] = AGENTS) -> None:
    folder.mkdir(exist_ok=True)
    for name, definition in agents.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **definition}, allow_unicode=True))


def configure(world: World, **section: Any) -> None:
    """Set keys of the harness's section for servers and workers that are started from now on."""
    config = yaml.safe_load(world.config_file.read_text())
    config["harness"] |= section
    world.config_file.write_text(yaml.safe_dump(config))


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[None]:
    """The harness server inside this process until the block ends."""
    stop = asyncio.Event()
    task = asyncio.create_task(serve(load(SECTIONS, file=world.config_file, environ={},
                                          known=("peers", "models")), stop))  # fmt: skip

    async def ready() -> bool:
        if task.done():
            await task
        return world.port_file.exists()

    try:
        await eventually(ready)
        yield
    finally:
        for channel in world.channels:
            await channel.close()
        stop.set()
        await task


def tool_answers(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the tools said since the question, recall aside."""
    messages = request["messages"]
    last_question = max(i for i, m in enumerate(messages) if m["role"] == "user")
    names = {call["id"]: call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()}
    return [
        json.loads(m["content"])
        for m in messages[last_question:]
        if m["role"] == "tool" and names.get(m["tool_call_id"]) != "recall_memory"
    ]


def question(request: Mapping[str, Any]) -> str:
    """The last thing that the user said."""
    return next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user")


def takt_script(request: dict[str, Any]) -> ScriptedReply | str:
    """Calls the tool named by the first word of the question once, then says what came of it."""
    answers = tool_answers(request)
    if answers:
        return f"answer: {json.dumps(answers[-1], sort_keys=True)}"
    tool, _, line = question(request).partition(" ")
    if not tool.startswith("use:"):
        return f"echo: {question(request)}"
    return ScriptedReply(tool_calls=[ScriptedCall(name=tool[4:], arguments={"line": line})])


@asynccontextmanager
async def refused(reason: str) -> AsyncIterator[None]:
    """Expect the block to be refused with this reason."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        yield
    assert remote_error(caught.value).reason == reason, caught.value.details()
