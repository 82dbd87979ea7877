"""The raw engines: psycopg on the same PostgreSQL, SQL on the same vector table, HTTP on the same OPA and upstream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import psycopg
from memoryos_postgres import PostgresSection, roles
from memoryos_vectors.halfvec import HalfVec
from numpy.typing import NDArray
from psycopg_pool import AsyncConnectionPool

from bench.corpus import MODEL

CONNECTIONS: Final = 4
_QUERY: Final = {"strict-builtin-errors": "true", "provenance": "true"}
"""OPA admits the decision path only as the policy service asks it."""
_SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE bench.items (
    tenant text COLLATE "C", id text COLLATE "C", content text, vec halfvec(512), PRIMARY KEY (tenant, id)
);
ALTER TABLE bench.items ALTER COLUMN vec SET STORAGE PLAIN;
CREATE INDEX ON bench.items (tenant) INCLUDE (id, vec);
"""
_INSERT: Final = "INSERT INTO bench.items (tenant, id, content, vec) VALUES (%s, %s, %s, %s::halfvec)"
_NEAREST: Final = """
SELECT item_id, 1 - (vec <=> %(vector)s::halfvec) AS score FROM memoryfs.item_vectors
WHERE tenant = %(tenant)s AND model_id = %(model)s AND tier = 1 AND acl && %(readers)s::int4[]
ORDER BY score DESC, item_id LIMIT 10
"""


class RawPostgres:
    """A pool of plain connections, as the table's owner: no row-level security, sealing, audit or idempotency."""

    def __init__(self, pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]]) -> None:
        self._pool = pool

    async def write(self, number: int, text: str, vector: NDArray[np.float32]) -> None:
        """Insert one row and commit."""
        async with self._pool.connection() as connection:
            await connection.execute(_INSERT, ("raw", f"r{number:08}", text, HalfVec(vector)))

    async def write_many(self, number: int, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Insert rows in one transaction."""
        rows = [
            ("raw", f"b{number:06}-{n:03}", text, HalfVec(vector))
            for n, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
        async with self._pool.connection() as connection, connection.cursor() as cursor:
            await cursor.executemany(_INSERT, rows)

    async def get(self, number: int) -> None:
        """Select one row by its key."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(
                "SELECT content FROM bench.items WHERE tenant = 'raw' AND id = %s", (f"r{number:08}",)
            )
            assert await cursor.fetchone()

    async def readers(self, tenant: str, names: Sequence[str]) -> list[int]:
        """Give the numbers of principals in the index."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute("SELECT set_config('memoryos.tenant', %s, false)", (tenant,))
            cursor = await connection.execute(
                "SELECT id FROM memoryfs.principals WHERE tenant = %s AND name = ANY (%s)", (tenant, list(names))
            )
            return [row[0] for row in await cursor.fetchall()]

    async def nearest(self, tenant: str, readers: Sequence[int], vector: NDArray[np.float32]) -> list[str]:
        """Give the ids of the ten nearest items by SQL alone."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute(
                _NEAREST, {"tenant": tenant, "model": MODEL, "readers": list(readers), "vector": HalfVec(vector)}
            )
            return [row[0] for row in await cursor.fetchall()]

    async def indexed_tenants(self) -> list[str]:
        """Give the tenants whose vectors have an approximate index that is complete."""
        async with self._pool.connection() as connection:
            cursor = await connection.execute("SELECT tenant FROM memoryfs.vector_indexes WHERE ready_time IS NOT NULL")
            return [row[0] for row in await cursor.fetchall()]

    async def settle(self) -> None:
        """Bring statistics and visibility map up to date, as autovacuum does within minutes."""
        async with self._pool.connection() as connection:
            await connection.set_autocommit(True)
            for table in ("items", "item_tokens", "item_vectors"):
                await connection.execute(f"VACUUM ANALYZE memoryfs.{table}")
            await connection.set_autocommit(False)

    async def planning_ms(self, tenant: str, readers: Sequence[int], vector: NDArray[np.float32]) -> float:
        """Give how long PostgreSQL plans the exact search."""
        params = {"tenant": tenant, "model": MODEL, "readers": list(readers), "vector": HalfVec(vector)}
        async with self._pool.connection() as connection, psycopg.AsyncClientCursor(connection) as cursor:
            times = []
            for _ in range(21):
                await cursor.execute("EXPLAIN (SUMMARY) " + _NEAREST, params)
                line = next(row[0] for row in await cursor.fetchall() if row[0].startswith("Planning Time"))
                times.append(float(line.split()[2]))
            return sorted(times)[10]


@asynccontextmanager
async def raw_postgres(folder: Path) -> AsyncIterator[RawPostgres]:
    """Connect to the deployment's PostgreSQL as the owner of its tables."""
    ports = json.loads((folder / "run" / "ports.json").read_text(encoding="utf-8"))
    section = PostgresSection(port=ports["postgres"], secrets_dir=folder / "secrets")
    async with await psycopg.AsyncConnection.connect(section.dsn(roles.OWNER), autocommit=True) as owner:
        await owner.execute(_SCHEMA.encode())
    pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]] = AsyncConnectionPool(
        section.dsn(roles.OWNER),
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
        open=False,
        kwargs={"prepare_threshold": 0, "options": "-c jit=off -c max_parallel_workers_per_gather=0"},
    )
    async with pool:
        yield RawPostgres(pool)


class RawOpa:
    """The same OPA over HTTP, with its token and an input of the same form."""

    def __init__(self, folder: Path) -> None:
        ports = json.loads((folder / "run" / "ports.json").read_text(encoding="utf-8"))
        token = (folder / "secrets" / "opa.token").read_text(encoding="utf-8").strip()
        self._url = f"http://127.0.0.1:{ports['opa']}/v1/data/memoryos/main/decision"
        self._client = httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, trust_env=False)

    async def decide(self, document: dict[str, Any]) -> None:
        """Ask for one decision."""
        answer = await self._client.post(self._url, json={"input": document}, params=_QUERY)
        assert answer.json()["result"]["decision"] == "allow"

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class RawUpstream:
    """The same upstream over HTTP, each request on a connection of its own as the gateway's are, and nothing else."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        body = b'{"amount":20}'
        head = f"POST /do HTTP/1.1\r\nhost: {address}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self._request = head.encode() + body

    async def call(self) -> None:
        """Make one request."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
            assert b" 200 " in head
        finally:
            writer.close()
