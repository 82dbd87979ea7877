"""MemoryFS behind a real gRPC server on a real PostgreSQL, and callers with real tokens."""

from __future__ import annotations

import itertools
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from memoryos.memoryfs.v1 import item_pb2, lifecycle_pb2, memoryfs_pb2, memoryfs_pb2_grpc
from memoryos_audit.seal_key import create_seal_key
from memoryos_core.clock import Clock, SystemClock
from memoryos_core.config import Config
from memoryos_core.ids import UlidSource
from memoryos_core.keys import KeySet, PrivateKey, Use
from memoryos_core.sections import IdentitySection, PeersSection, SealingSection
from memoryos_core.tokens import EDGE_AUDIENCE, Identity, TokenSigner
from memoryos_grpc.config import GrpcSection
from memoryos_memoryfs.app import running
from memoryos_memoryfs.config import MemoryFSSection
from memoryos_models.config import ModelsSection
from memoryos_models.errors import ModelUnavailable
from memoryos_models.ports import Embedder, Vectors
from memoryos_postgres.keyring import create_epoch_key
from memoryos_telemetry import TelemetrySection
from memoryos_testing.faulty_index import FaultyIndex
from memoryos_testing.hash_embedder import HashEmbedder
from memoryos_testing.postgres import Clone
from memoryos_vectors.adapters import qdrant_wire
from memoryos_vectors.adapters.qdrant import connect
from memoryos_vectors.config import PgVectorSection
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import DerivedIndex
from memoryos_vectors.qdrant_config import QdrantSection

BACKEND = os.environ.get("MEMORYOS_TEST_BACKEND", "pgvector")
"""qdrant: every service of these tests answers from a Qdrant, the one that QDRANT_URL names or one in local mode."""
QDRANT_URL = os.environ.get("QDRANT_URL", "")
EPISODIC = "/tenants/acme/memory/episodic"
_numbers = itertools.count(1)


def request_id() -> str:
    """Give a request_id that no other call of this run has."""
    return f"req-{next(_numbers)}"


@dataclass
class FlakyEmbedder:
    """The hash embedder with a switch: `down` makes it unavailable, as a lost endpoint is."""

    inner: HashEmbedder = field(default_factory=lambda: HashEmbedder(dimensions=64))
    down: bool = False
    poison: str = ""
    """A text that cannot be embedded."""
    calls: int = 0

    @property
    def model_id(self) -> str:
        return self.inner.model_id

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    async def embed(self, texts: Sequence[str], *, deadline_s: float) -> Vectors:
        self.calls += 1
        if self.down or (self.poison and any(self.poison in text for text in texts)):
            raise ModelUnavailable
        return await self.inner.embed(texts, deadline_s=deadline_s)

    async def close(self) -> None:
        return None


class As:
    """One caller. Every method is one RPC with this caller's token."""

    def __init__(self, channel: grpc.aio.Channel, token: str, path: str) -> None:
        self._stub = memoryfs_pb2_grpc.MemoryFSStub(channel)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self.path = path

    async def call(self, method: str, request: Any, *, timeout_s: float = 20) -> Any:
        return await getattr(self._stub, method)(request, metadata=self._metadata, timeout=timeout_s)

    def stream(self, method: str, request: Any, *, timeout_s: float = 60) -> Any:
        return getattr(self._stub, method)(request, metadata=self._metadata, timeout=timeout_s)

    async def write_entries(
        self, entries: Sequence[memoryfs_pb2.WriteEntry], *, path: str = "", request: str = ""
    ) -> list[memoryfs_pb2.WriteResult]:
        response = await self.call(
            "Write",
            memoryfs_pb2.WriteRequest(path=path or self.path, entries=entries, request_id=request or request_id()),
        )
        return list(response.results)

    async def write(self, content: str, *, path: str = "", **fields: Any) -> str:
        """Write one item and give its id."""
        (result,) = await self.write_entries([memoryfs_pb2.WriteEntry(content=content, **fields)], path=path)
        return str(result.id)

    async def update(self, item_id: str, *, path: str = "", **fields: Any) -> memoryfs_pb2.WriteResult:
        (result,) = await self.write_entries([memoryfs_pb2.WriteEntry(id=item_id, **fields)], path=path)
        return result

    async def read(self, query: str = "", *, path: str = "", **fields: Any) -> memoryfs_pb2.ReadResponse:
        return await self.call("Read", memoryfs_pb2.ReadRequest(path=path or self.path, query=query, **fields))

    async def read_ids(self, query: str = "", *, path: str = "", **fields: Any) -> list[str]:
        return [hit.item.id for hit in (await self.read(query, path=path, **fields)).hits]

    async def get(self, item_id: str) -> item_pb2.Item:
        return (await self.call("Get", memoryfs_pb2.GetRequest(id=item_id))).item

    async def list(self, *, path: str = "", **fields: Any) -> memoryfs_pb2.ListResponse:
        return await self.call("List", memoryfs_pb2.ListRequest(path=path or self.path, **fields))

    async def list_ids(self, *, path: str = "", **fields: Any) -> list[str]:
        return [item.id for item in (await self.list(path=path, **fields)).items]

    async def forget(self, *ids: str, path: str = "", request: str = "") -> int:
        request_name = request or request_id()
        message = lifecycle_pb2.ForgetRequest(path=path or self.path, ids=ids, request_id=request_name)
        return int((await self.call("Forget", message)).forgotten_count)

    async def restore(self, *ids: str, path: str = "", request: str = "") -> int:
        request_name = request or request_id()
        message = lifecycle_pb2.RestoreRequest(path=path or self.path, ids=ids, request_id=request_name)
        return int((await self.call("Restore", message)).restored_count)


class Keys:
    """The development issuer of one test, and the files that services read."""

    def __init__(self, key: PrivateKey, folder: Path) -> None:
        self.keys_file = folder / "keys.json"
        self.service_key_file = folder / "memoryfs.pem"
        self.receipt_key_file = folder / "receipt.pem"
        self.epoch_key_file = folder / "epoch.key"
        self._key = key
        clock = SystemClock()
        self._signer = TokenSigner(key, clock, UlidSource(clock))

    @classmethod
    def made(cls, folder: Path) -> Keys:
        """Make everything anew."""
        keys = cls(PrivateKey.generate("memoryos-dev", Use.SUBJECT), folder)
        own = PrivateKey.generate("memoryfs", Use.SERVICE)
        own.save(keys.service_key_file)
        create_seal_key(keys.receipt_key_file)
        KeySet([keys._key.public, own.public]).save(keys.keys_file)
        create_epoch_key(keys.epoch_key_file)
        return keys

    def copied(self, folder: Path) -> Keys:
        """Give the same keys in files of one's own."""
        shutil.copytree(self.keys_file.parent, folder)
        return Keys(self._key, folder)

    def token(self, identity: Identity) -> str:
        return self._signer.subject(identity, audience=[EDGE_AUDIENCE], ttl_s=3600)


@dataclass
class Service:
    """A running MemoryFS."""

    address: str
    channel: grpc.aio.Channel
    keys: Keys
    embedder: FlakyEmbedder
    database: Clone

    def caller(self, user: str = "u42", tenant: str = "acme", **fields: Any) -> As:
        """Give a caller; `fields` are those of Identity."""
        fields.setdefault("roles", frozenset({"agent"}))
        identity = Identity(tenant=tenant, user=user, **fields)
        return As(self.channel, self.keys.token(identity), f"/tenants/{tenant}/memory/episodic")

    async def rows(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        """Give rows as superuser sees them, past row-level security."""
        import psycopg

        async with await psycopg.AsyncConnection.connect(self.database.admin_dsn, autocommit=True) as admin:
            await admin.execute("SET memoryos.tenant = 'acme'")  # triggers count for the tenant of the transaction
            cursor = await admin.execute(query.encode(), params or None)
            return await cursor.fetchall() if cursor.description else []


ServiceFactory = Callable[..., Awaitable[Service]]


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core", "memoryfs")


@pytest.fixture(scope="session")
def made_keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys.made(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def keys(made_keys: Keys, tmp_path: Path) -> Keys:
    return made_keys.copied(tmp_path / "keys")


def config_of(
    database: Clone,
    keys: Keys,
    folder: Path,
    *,
    qdrant: dict[str, Any] | None = None,
    models: dict[str, Any] | None = None,
    peers: dict[str, str] | None = None,
    **memoryfs: Any,
) -> Config:
    """Give the configuration of a service on a test's database."""
    return Config(
        [
            GrpcSection(),
            TelemetrySection(span_dir=folder / "spans"),
            database.section,
            IdentitySection(keys_file=keys.keys_file, service_key_file=keys.service_key_file),
            PeersSection(**(peers or {})),
            SealingSection(epoch_key_file=keys.epoch_key_file),
            ModelsSection.model_validate(models or {}),
            PgVectorSection(),
            QdrantSection(**{"copy_poll_s": 0.02, "copy_retry_s": 0.02, **(qdrant or {})}),
            MemoryFSSection(
                **{
                    "embed_poll_s": 0.05,
                    "embed_retry_s": 0.05,
                    "receipt_key_file": keys.receipt_key_file,
                    **memoryfs,
                }
            ),
        ]
    )


@pytest.fixture
def short_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Destroyed keys and old names are believed for a second, not ten: the erasure of a person waits for that."""
    for module in (
        "memoryos_postgres.keyring",
        "memoryos_memoryfs.adapters.names",
        "memoryos_memoryfs.adapters.pg_erasure",
    ):
        monkeypatch.setattr(f"{module}.CACHE_TTL_S", 1.0)


async def _drop_collections(prefix: str) -> None:
    """Remove what the services of one test left on the Qdrant that QDRANT_URL names."""
    client, _ = qdrant_wire.connect(QDRANT_URL, api_key=None, timeout_s=5)
    for found in (await client.get_collections()).collections:
        if found.name.startswith(prefix):
            await client.delete_collection(found.name)
    await client.close()


@pytest.fixture
async def start_service(database: Clone, keys: Keys, tmp_path: Path) -> AsyncIterator[ServiceFactory]:
    """Start MemoryFS, with another clock or settings where a test wants them."""
    async with AsyncExitStack() as stack:
        copy = {"url": QDRANT_URL or ":memory:", "collection_prefix": f"test-{uuid.uuid4().hex}"}
        if BACKEND == "qdrant" and QDRANT_URL:
            stack.push_async_callback(_drop_collections, copy["collection_prefix"])

        async def start(
            *,
            clock: Clock | None = None,
            embedder: Embedder | None = None,
            derived: DerivedIndex | None = None,
            qdrant: dict[str, Any] | None = None,
            models: dict[str, Any] | None = None,
            **memoryfs: Any,
        ) -> Service:
            flaky = embedder or FlakyEmbedder()
            if BACKEND == "qdrant" and not (derived or qdrant or "vector_backend" in memoryfs):
                qdrant, memoryfs = copy, {"vector_backend": "qdrant", **memoryfs}
            config = config_of(database, keys, tmp_path, qdrant=qdrant, models=models, **memoryfs)
            server = await stack.enter_async_context(running(config, clock=clock, embedder=flaky, derived=derived))
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.address))
            return Service(server.address, channel, keys, flaky, database)  # type: ignore[arg-type]

        yield start


@pytest.fixture
def service_embedder() -> FlakyEmbedder:
    """The embedder that a test gives to its services."""
    return FlakyEmbedder()


@pytest.fixture(params=[url for url in (":memory:", QDRANT_URL) if url])
async def faulty(request: pytest.FixtureRequest, service_embedder: FlakyEmbedder) -> AsyncIterator[FaultyIndex]:
    """A Qdrant in local mode, and a real one where QDRANT_URL names it, with faults on the way to it."""
    models = IndexedModels({service_embedder.model_id: service_embedder.dimensions})
    prefix = f"test-{uuid.uuid4().hex}"
    yield FaultyIndex(connect(request.param, models, prefix=prefix))
    index = connect(request.param, models, prefix=prefix)  # the service has closed the other one
    await index.drop()
    await index.close()


@pytest.fixture
async def service(start_service: ServiceFactory) -> Service:
    """A running MemoryFS."""
    return await start_service()


@pytest.fixture
def alice(service: Service) -> As:
    """A caller of tenant acme."""
    return service.caller("alice")


@pytest.fixture
def bob(service: Service) -> As:
    """Another caller of tenant acme."""
    return service.caller("bob")


@pytest.fixture
def mallory(service: Service) -> As:
    """A caller of another tenant."""
    return service.caller("mallory", tenant="evil")


def unit(*values: float, dimensions: int = 64) -> list[float]:
    """Give a vector that starts with `values`."""
    row = np.zeros(dimensions)
    row[: len(values)] = values
    return [float(value) for value in row / np.linalg.norm(row)]


@pytest.fixture
def as_type() -> type[As]:
    """The class of callers, for tests that start a service by themselves."""
    return As
