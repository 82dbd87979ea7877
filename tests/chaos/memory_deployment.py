"""PostgreSQL, MemoryFS and, where there is one, a Qdrant server as processes that a test kills and starts again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import psycopg
import yaml
from memoryos.memoryfs.v1 import admin_pb2, memoryfs_pb2_grpc
from memoryos_audit.seal_key import create_seal_key
from memoryos_core.clock import SystemClock
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.tokens import EDGE_AUDIENCE, Identity, TokenSigner
from memoryos_postgres import PostgresSection, roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.embedded import EmbeddedPostgres
from memoryos_postgres.embedded.files import free_port
from memoryos_postgres.keyring import create_epoch_key
from memoryos_postgres.migrate import installed_folders, migrate

READY_S = 60
_CHANNEL = (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200))
Metadata = tuple[tuple[str, str], ...]


class Deployment:
    """The processes and how callers reach them. Kills are SIGKILL, by process id."""

    def __init__(self, folder: Path, postgres: EmbeddedPostgres, qdrant_binary: Path | None) -> None:
        self._folder, self._postgres, self._qdrant_binary = folder, postgres, qdrant_binary
        self._port = free_port()
        self._qdrant_port = free_port() if qdrant_binary else 0
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        key = PrivateKey.generate("memoryos-dev", Use.SUBJECT)
        KeySet([key.public]).save(folder / "keys.json")
        create_seal_key(folder / "receipt.pem")
        create_epoch_key(folder / "epoch.key")
        self._signer = TokenSigner(key, SystemClock(), UlidSource(SystemClock()))
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{self._port}", options=_CHANNEL)
        self.stub = memoryfs_pb2_grpc.MemoryFSStub(self.channel)
        self._operator = self.caller("opal", "acme", "operator")

    @property
    def admin_dsn(self) -> str:
        """The database as superuser."""
        return self._postgres.admin_dsn("memoryos")

    @property
    def parts(self) -> dict[str, Callable[[], None]]:
        """What can be killed, by name."""
        parts: dict[str, Callable[[], None]] = {
            "memoryfs": lambda: self._processes["memoryfs"].send_signal(signal.SIGKILL),
            "postgres": self._postgres.kill,
        }
        if self._qdrant_binary:
            parts["qdrant"] = lambda: self._processes["qdrant"].send_signal(signal.SIGKILL)
        return parts

    def caller(self, user: str, tenant: str, *names: str) -> Metadata:
        """Give the metadata of a caller's calls."""
        identity = Identity(tenant=tenant, user=user, roles=frozenset(names or ("user",)))
        token = self._signer.subject(identity, audience=[EDGE_AUDIENCE], ttl_s=6 * 3600)
        return (("authorization", f"Bearer {token}"),)

    async def prepare(self) -> None:
        """Make the database and the configuration, and start what is not running."""
        secrets = self._folder / "secrets"
        await bootstrap(self._postgres.admin_dsn(), "memoryos", secrets)
        section = PostgresSection(port=self._postgres.port, database="memoryos", secrets_dir=secrets)
        await migrate(section.dsn(roles.OWNER), installed_folders(["core", "memoryfs"]))
        url = f"http://127.0.0.1:{self._qdrant_port}" if self._qdrant_binary else f"file://{self._folder}/copy"
        config = {
            "grpc": {"port": self._port},
            "telemetry": {"span_dir": str(self._folder / "spans")},
            "postgres": {"port": self._postgres.port, "database": "memoryos", "secrets_dir": str(secrets)},
            "identity": {"keys_file": str(self._folder / "keys.json")},
            "sealing": {"epoch_key_file": str(self._folder / "epoch.key")},
            "qdrant": {"url": url, "copy_poll_s": 0.05, "copy_retry_s": 0.1, "copy_check_s": 1.0},
            "memoryfs": {"receipt_key_file": str(self._folder / "receipt.pem"), "embed_poll_s": 0.1, "upkeep_s": 0.5},
        }
        (self._folder / "memoryfs.yaml").write_text(yaml.safe_dump(config))
        await self.start(["qdrant", "memoryfs"])

    async def start(self, names: list[str]) -> None:
        """Start what was killed, and wait until the service serves."""
        if "postgres" in names:
            self._postgres.start()
        if "qdrant" in names and self._qdrant_binary:
            await self._run("qdrant", str(self._qdrant_binary), environ=self._qdrant_environ())
        if "memoryfs" in names:
            environ = {"MEMORYOS_CONFIG": str(self._folder / "memoryfs.yaml")}
            await self._run("memoryfs", sys.executable, "-m", "memoryos_memoryfs.main", environ=environ)
        await self.serving()

    async def free_jobs(self) -> None:
        """Let leases end now that dead processes hold; the test need not wait for that."""
        async with await psycopg.AsyncConnection.connect(self.admin_dsn, autocommit=True) as admin:
            await admin.execute("UPDATE core.due_jobs SET due_time = now()")

    async def unfinished(self) -> str:
        """Give what tells whether work that is under way comes further."""
        async with await psycopg.AsyncConnection.connect(self.admin_dsn, autocommit=True) as admin:
            found = await admin.execute(
                "SELECT coalesce(string_agg(id || phase || done_count || checkpoint::text, ' ' ORDER BY id), '') || ' '"
                " || (SELECT count(*) FROM memoryfs.index_outbox) || ' ' || (SELECT count(*) FROM memoryfs.item_embeds)"
                " FROM core.jobs WHERE state <= 2"
            )
            row = await found.fetchone()
        return str(row)

    async def kill(self, names: list[str]) -> None:
        """Kill at once, without a word."""
        for name in names:
            self.parts[name]()
        for name in names:
            if name in self._processes:
                await self._processes.pop(name).wait()

    async def serving(self) -> None:
        """Return when a call that needs the database is answered; nobody helps meanwhile."""
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    request = admin_pb2.GetIndexStatusRequest()
                    await self.stub.GetIndexStatus(request, metadata=self._operator, timeout=5)
                except grpc.aio.AioRpcError:
                    process = self._processes["memoryfs"]
                    assert process.returncode is None, (self._folder / "memoryfs.log").read_text()[-4000:]
                    await asyncio.sleep(0.05)
                else:
                    return

    async def close(self) -> None:
        """Stop every process by its id."""
        await self.channel.close()
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def _run(self, name: str, *argv: str, environ: dict[str, str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                *argv,
                env={**environ, "PATH": os.defpath},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    def _qdrant_environ(self) -> dict[str, str]:
        return {
            "QDRANT__STORAGE__STORAGE_PATH": str(self._folder / "qdrant"),
            "QDRANT__STORAGE__SNAPSHOTS_PATH": str(self._folder / "qdrant-snapshots"),
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__GRPC_PORT": str(self._qdrant_port),
            "QDRANT__SERVICE__HTTP_PORT": str(free_port()),
            "QDRANT__TELEMETRY_DISABLED": "true",
        }


@asynccontextmanager
async def deployed(folder: Path, qdrant_binary: Path | None = None) -> AsyncIterator[Deployment]:
    """Give a deployment that serves; every process has ended afterwards."""
    with EmbeddedPostgres(folder) as postgres:
        deployment = Deployment(folder, postgres, qdrant_binary)
        try:
            await deployment.prepare()
            yield deployment
        finally:
            await deployment.close()
