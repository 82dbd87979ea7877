"""Approximate indexes of big tenants: made and removed beside everything else, as the owner of the vector table.

A tenant that has grown gets a partial HNSW index over its hot rows, and a
partial GIN index by which few matching rows are found and counted. Both are
built CONCURRENTLY: nobody waits. What a killed build leaves behind is removed
and built anew. The sizes of tenants come from PostgreSQL's own statistics, so
that idle upkeep costs the same whatever the store holds.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.crashpoints import crash_point
from memoryos_postgres import queries
from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

from memoryos_vectors.config import PgVectorSection

_QUERIES = queries.load("memoryos_vectors", "upkeep.sql")
_LOCK: Final = 0x4D4F5305
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Vectors of one tenant and model that are many enough."""

    tenant: str
    model_id: str
    dimensions: int
    row_count: int

    @property
    def digest(self) -> str:
        """Tell its indexes from others by name."""
        return hashlib.blake2b(f"{self.tenant}\0{self.model_id}".encode(), digest_size=8).hexdigest()


class AnnUpkeep:
    """One connection of memoryos_indexer in autocommit; of several at once one works and the others do nothing."""

    def __init__(self, connection: AsyncConnection[Any], section: PgVectorSection) -> None:
        self._connection = connection
        self._section = section

    async def run_once(self) -> int:
        """Bring the indexes in line with the sizes of tenants; give the number of indexes made or removed."""
        if not await self._value(_QUERIES["try_lock"], {"lock": _LOCK}):
            return 0
        try:
            await self._analyze()
            return await self._drop_small() + await self._drop_leftovers() + await self._build_wanted()
        finally:
            await self._run(_QUERIES["unlock"], {"lock": _LOCK})

    async def _analyze(self) -> None:
        changed = await self._value(_QUERIES["changed_rows"])
        if changed >= max(self._section.ann_rows_min // 2, 1):
            await self._connection.execute("ANALYZE memoryfs.item_vectors (tenant, model_id)")

    async def _drop_small(self) -> int:
        rows = await self._rows(_QUERIES["shrunk_tenants"], {"rows_max": self._section.ann_rows_min // 2})
        for row in rows:
            # First nobody is sent there any more.
            await self._run(_QUERIES["forget_index"], {"tenant": row["tenant"], "model_id": row["model_id"]})
            _log.info("approximate index removed: the tenant has become small")
        return len(rows)

    async def _drop_leftovers(self) -> int:
        """Remove indexes that belong to no tenant of the list, and broken ones."""
        names = {name for row in await self._rows(_QUERIES["listed_indexes"]) for name in _names(row["digest"])}
        dropped = 0
        for row in await self._rows(_QUERIES["ann_indexes"]):
            if row["name"] not in names or not row["valid"]:
                await self._execute(
                    sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS memoryfs.{}").format(sql.Identifier(row["name"]))
                )
                dropped += 1
        return dropped

    async def _build_wanted(self) -> int:
        listed = {
            (row["tenant"], row["model_id"]): row["ready"] for row in await self._rows(_QUERIES["listed_indexes"])
        }
        built = 0
        for row in await self._rows(_QUERIES["grown_tenants"], {"rows_min": self._section.ann_rows_min}):
            for wanted in await self._models_of(row["tenant"]):
                key = (wanted.tenant, wanted.model_id)
                if listed.get(key):
                    continue
                if key not in listed and len(listed) >= self._section.ann_indexes_max:
                    return built  # the exact scan goes on to answer
                await self._build(wanted)
                listed[key] = True
                built += 1
        return built

    async def _models_of(self, tenant: str) -> Sequence[_Wanted]:
        found: list[_Wanted] = []
        after = ""
        while row := next(iter(await self._rows(_QUERIES["next_model"], {"tenant": tenant, "after": after})), None):
            after = row["model_id"]
            count = await self._value(_QUERIES["row_count"], {"tenant": tenant, "model_id": after})
            if count >= self._section.ann_rows_min:
                found.append(_Wanted(tenant, after, row["dimensions"], count))
        return found

    async def _build(self, wanted: _Wanted) -> None:
        section = self._section
        params = {"tenant": wanted.tenant, "model_id": wanted.model_id, "digest": wanted.digest}
        await self._run(_QUERIES["list_index"], {**params, "row_count": wanted.row_count})
        await self._connection.execute(f"SET maintenance_work_mem = '{section.build_memory_mb}MB'")
        await self._connection.execute(f"SET max_parallel_maintenance_workers = {section.build_workers}")
        await self._connection.execute("SET statement_timeout = 0")
        near, few = _names(wanted.digest)
        names = {"near": sql.Identifier(near), "few": sql.Identifier(few)}
        values = {
            "tenant": sql.Literal(wanted.tenant),
            "model_id": sql.Literal(wanted.model_id),
            "dimensions": sql.Literal(wanted.dimensions),
        }
        _log.info("approximate index: building over %d rows", wanted.row_count)
        await self._execute(sql.SQL(_QUERIES["create_few"]).format(**names, **values))
        crash_point("memoryfs.ann.between_indexes")
        await self._execute(sql.SQL(_QUERIES["create_near"]).format(**names, **values))
        await self._run(_QUERIES["index_is_ready"], params)
        _log.info("approximate index: ready")

    async def _execute(self, statement: sql.Composed) -> None:
        await self._connection.execute(statement)

    async def _run(self, query: str, params: dict[str, Any] | None = None) -> None:
        await self._connection.execute(query.encode(), params)

    async def _rows(self, query: str, params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query.encode(), params)
            return await cursor.fetchall()

    async def _value(self, query: str, params: dict[str, Any] | None = None) -> Any:
        (row,) = await self._rows(query, params)
        return next(iter(row.values()))


def _names(digest: str) -> tuple[str, str]:
    return f"item_vectors_near_{digest}", f"item_vectors_few_{digest}"
