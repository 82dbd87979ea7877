"""PostgreSQL, OPA, policy, two tool gateways and the counting upstream as processes that a test kills and starts."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from memoryos.policy.v1 import reviews_pb2_grpc
from memoryos.toolgateway.v1 import tool_gateway_pb2_grpc
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import EDGE_AUDIENCE, Identity, TokenSigner
from memoryos_policy.opa import ENVIRONMENT, OpaSetup, prepare
from memoryos_postgres import PostgresSection, roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.embedded import EmbeddedPostgres
from memoryos_postgres.keyring import create_epoch_key
from memoryos_postgres.migrate import installed_folders, migrate
from memoryos_testing.opa import opa_binary

from .acting_skills import write_bundle, write_skills

GATEWAYS: Final = ("gateway-a", "gateway-b")
ARMED: Final = ("policy", *GATEWAYS)
"""Parts that die of crash points, too."""
PARTS: Final = ("postgres", "opa", "upstream", *ARMED)
READY_S: Final = 60
TENANT: Final = "acme"
_CHANNEL = (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100))
_HERE = Path(__file__).parent
Metadata = tuple[tuple[str, str], ...]
D = TypeVar("D", bound="Deployment")


def quiet_port(taken: set[int]) -> int:
    """Give a port that no outgoing connection gets by chance while nobody listens on it."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(max(low - 12_000, 1_024), low)
        with socket.socket() as probe:
            if port not in taken and probe.connect_ex(("127.0.0.1", port)) != 0:
                taken.add(port)
                return port


class Deployment:
    """The processes and how callers reach them. Kills are SIGKILL, by process id; each is counted."""

    parts: tuple[str, ...] = PARTS
    serving: tuple[str, ...] = ARMED
    """Parts that serve gRPC."""
    schemas: tuple[str, ...] = ("core", "memoryfs", "policy", "toolgateway")

    def __init__(self, folder: Path, postgres: EmbeddedPostgres) -> None:
        self._folder, self._postgres = folder, postgres
        taken = {postgres.port}
        self._ports = {name: quiet_port(taken) for name in self.parts[1:]}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._armed: dict[str, str] = {}
        self._opa: list[str] = []
        self.kills: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        """Crash points at which a process has died."""
        self.effects_file = folder / "effects"
        issuer = PrivateKey.generate("memoryos-dev", Use.SUBJECT)
        services = {name: PrivateKey.generate(name, Use.SERVICE) for name in ("tool-gateway", "policy", "harness")}
        tasks = PrivateKey.generate("memoryos-harness", Use.SUBJECT)
        KeySet([issuer.public, tasks.public, *(key.public for key in services.values())]).save(folder / "keys.json")
        for name, key in {**services, "tasks": tasks}.items():
            key.save(folder / f"{name}.pem")
        create_epoch_key(folder / "epoch.key")
        self._signer = TokenSigner(issuer, SystemClock(), UlidSource(SystemClock()))
        self.channels = {
            name: grpc.aio.insecure_channel(f"127.0.0.1:{self._ports[name]}", options=_CHANNEL) for name in self.serving
        }
        gateways = [self.channels[name] for name in GATEWAYS if name in self.channels]
        self.gateways = [tool_gateway_pb2_grpc.ToolGatewayStub(channel) for channel in gateways]
        self.reviews = reviews_pb2_grpc.ReviewsStub(self.channels["policy"])

    @property
    def admin_dsn(self) -> str:
        """The database as superuser."""
        return self._postgres.admin_dsn("memoryos")

    @property
    def armed(self) -> frozenset[str]:
        """Parts that will die of a crash point and have not yet."""
        return frozenset(self._armed) - {name for name in self._armed if self.is_dead(name)}

    @property
    def processes(self) -> list[asyncio.subprocess.Process]:
        """Those that were started last, PostgreSQL aside."""
        return list(self._processes.values())

    def caller(self, user: str, *names: str, groups: tuple[str, ...] = (), agent: bool = False) -> Metadata:
        """Give the metadata of a caller's calls: a person's, or an agent's on behalf of one."""
        identity = Identity(
            tenant=TENANT, user=user, roles=frozenset(names), groups=frozenset(groups),
            chain=("helper",) if agent else (), session_id=f"ses_{user}",
        )  # fmt: skip
        token = self._signer.subject(identity, audience=[EDGE_AUDIENCE], ttl_s=6 * 3600)
        return (("authorization", f"Bearer {token}"),)

    async def prepare(self) -> None:
        """Make database, rules, skills and configuration, and start everything."""
        folder, secrets = self._folder, self._folder / "secrets"
        await bootstrap(self._postgres.admin_dsn(), "memoryos", secrets)
        section = PostgresSection(port=self._postgres.port, database="memoryos", secrets_dir=secrets)
        await migrate(section.dsn(roles.OWNER), installed_folders(list(self.schemas)))
        (folder / "team.url").write_text(f"http://127.0.0.1:{self._ports['upstream']}/notice")
        bundle = write_bundle(folder / "bundle")
        config = self._settings(bundle, write_skills(folder / "skills"))
        (folder / "memoryos.yaml").write_text(yaml.safe_dump(config))
        self._opa = prepare(
            OpaSetup(
                binary=opa_binary(), run_dir=folder / "opa", token_file=folder / "opa.token",
                port=self._ports["opa"], bundle_dir=bundle,
            ),
            SystemClock(),
        )  # fmt: skip
        await self.start(list(self.parts[1:]))

    def _settings(self, bundle: Path, skills: Path) -> dict[str, Any]:
        folder = self._folder
        return {
            "grpc": {"drain_s": 5},
            "telemetry": {"span_dir": str(folder / "spans")},
            "postgres": {"port": self._postgres.port, "database": "memoryos", "secrets_dir": str(folder / "secrets")},
            "identity": {"keys_file": str(folder / "keys.json")},
            "sealing": {"epoch_key_file": str(folder / "epoch.key")},
            "peers": {"policy": f"127.0.0.1:{self._ports['policy']}", "memoryfs": "127.0.0.1:1"},
            "policy": {
                "opa_port": self._ports["opa"], "opa_token_file": str(folder / "opa.token"), "probe_interval_s": 0.1,
                "bundle_dir": str(bundle), "stale_after_s": {"critical": 30},
            },
            "tool-gateway": {
                "skill_dirs": [str(skills)], "builtin_skills": False,
                "endpoints": {"UPSTREAM": f"127.0.0.1:{self._ports['upstream']}"}, "networks": ["127.0.0.0/8"],
                "notify_channels": {"team": {"url_file": str(folder / "team.url")}}, "upstream_open_s": 0.5,
                "sweep_interval_s": 0.2, "probe_interval_s": 0.1,
            },
        }  # fmt: skip

    def is_dead(self, name: str) -> bool:
        """Tell whether this part has been killed, or has died of its crash point."""
        process = self._processes.get(name)
        return name != "postgres" and (process is None or process.returncode is not None)

    async def kill(self, names: list[str]) -> None:
        """Kill at once, without a word."""
        for name in names:
            if name == "postgres":
                self._postgres.kill()
                self.kills[name] += 1
            elif not self.is_dead(name):
                self._processes[name].send_signal(signal.SIGKILL)
        for name in names:
            if name != "postgres":
                await self._buried(name)

    async def bury(self) -> list[str]:
        """Give what has died of crash points since the last look."""
        dead = [name for name in self._processes if self.is_dead(name)]
        for name in dead:
            await self._buried(name)
        return dead

    async def start(self, names: list[str], arm: dict[str, str] | None = None) -> None:
        """Start what is dead, armed or not; return when all serves, or one has died of its crash point already."""
        self._armed |= arm or {}
        if "postgres" in names:
            self._postgres.start()
        for name in names:
            if name != "postgres":
                await self._run(name)
        async with asyncio.timeout(READY_S):
            await asyncio.gather(*(self._serving(name) for name in self.serving))

    async def close(self) -> None:
        """Stop every process by its id."""
        for channel in self.channels.values():
            await channel.close()
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def _buried(self, name: str) -> None:
        """Count a death: every one is a kill -9, anything else is a fault."""
        process, point = self._processes.pop(name), self._armed.pop(name, "")
        returned = await process.wait()
        assert returned == -signal.SIGKILL or self._may_end(name), (name, returned, self._log(name))
        self.kills[name] += 1
        self.fired[point.partition(":")[0]] += 1

    def _may_end(self, name: str) -> bool:
        """Tell whether a part has ended by itself for a reason that is none of its faults."""
        return False

    async def _run(self, name: str) -> None:
        argv, environ = self._command(name)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                *argv, env={**environ, "PATH": os.defpath}, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _command(self, name: str) -> tuple[list[str], dict[str, str]]:
        """Give what runs a part, and its environment."""
        if name == "opa":
            return self._opa, dict(ENVIRONMENT)
        if name == "upstream":
            arguments = [str(self._ports[name]), str(self.effects_file), str(sum(self.kills.values()))]
            return [sys.executable, str(_HERE / "acting_upstream.py"), *arguments], {}
        service = "policy" if name == "policy" else "tool-gateway"
        return self._service(name, f"memoryos_{service.replace('-', '')}.main", f"{service}.pem")

    def _service(self, name: str, module: str, key: str) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-m", module], {
            "MEMORYOS_CONFIG": str(self._folder / "memoryos.yaml"),
            "MEMORYOS_GRPC__PORT": str(self._ports[name]),
            "MEMORYOS_IDENTITY__SERVICE_KEY_FILE": str(self._folder / key),
            "MEMORYOS_CRASH_POINT": self._armed.get(name, ""),
        }

    async def _serving(self, name: str) -> None:
        health = health_pb2_grpc.HealthStub(self.channels[name])
        while not any(map(self.is_dead, self.serving)):
            try:
                answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=2)
            except grpc.aio.AioRpcError:
                answer = None
            if answer is not None and answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
            await asyncio.sleep(0.05)

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-4000:]


@asynccontextmanager
async def deployed(folder: Path, make: type[D]) -> AsyncIterator[D]:
    """Give a deployment that serves; every process has ended afterwards."""
    postgres = EmbeddedPostgres(folder)
    postgres.port = quiet_port(set())
    with postgres:
        deployment = make(folder, postgres)
        try:
            await deployment.prepare()
            yield deployment
        finally:
            await deployment.close()
