"""Indexes of big tenants: made, asked, and removed by the upkeep."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np
import psycopg
import pytest
from memoryos_core.clock import ManualClock
from memoryos_postgres import Database, roles
from memoryos_testing.contracts.vector_index import MODEL, MODELS, X, entry, ids, random_unit
from memoryos_testing.postgres import Clone, DatabaseFactory
from memoryos_vectors.adapters.pgvector import PgVectorIndex
from memoryos_vectors.adapters.pgvector_routes import FEW, MANY_S, AnnRoutes
from memoryos_vectors.adapters.pgvector_upkeep import AnnUpkeep
from memoryos_vectors.config import PgVectorSection
from memoryos_vectors.ports import Exactness, IndexScope, Tier, VectorAnswer, VectorEntry, VectorQuery

pytestmark = pytest.mark.integration
SECTION = PgVectorSection(ann_rows_min=1_000, exact_below=100, scan_tuples_max=1_000, ann_indexes_max=2)
BIG, SMALL = "big", "small"
KILLED_AT = "memoryfs.ann.between_indexes"
_INDEXES = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE i.indrelid = 'memoryfs.item_vectors'::regclass AND c.relname ~ '_(near|few)_' AND i.indisvalid"
)


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core", "memoryfs")


@pytest.fixture
async def database_of_memoryfs(database_factory: DatabaseFactory) -> Database:
    return await database_factory(roles.MEMORYFS)


@pytest.fixture
async def indexer(database: Clone) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(
        database.dsn(roles.INDEXER), autocommit=True, prepare_threshold=None
    ) as connection:
        yield connection


async def fill(database: Database, tenant: str, count: int, *, reader_of: int = 10) -> list[VectorEntry]:
    """Entries of owner 1, every `reader_of`th also of reader 2."""
    rng = np.random.default_rng(4)
    entries = [entry(f"i{n:05}", random_unit(rng), acl=(1, 2) if n % reader_of == 0 else (1,)) for n in range(count)]
    async with database.tenant(tenant) as tx:
        await PgVectorIndex(tx, MODELS).upsert(tenant, MODEL, entries, fresh=True)
    return entries


async def upkeep(connection: psycopg.AsyncConnection[Any]) -> int:
    """One round, with statistics that the server would otherwise make within a minute."""
    await connection.execute("ANALYZE memoryfs.item_vectors")
    return await AnnUpkeep(connection, SECTION).run_once()


async def search(
    database: Database, tenant: str, readers: tuple[int, ...], routes: AnnRoutes | None = None, **more: Any
) -> VectorAnswer:
    async with database.tenant(tenant) as tx:
        query = VectorQuery(model_id=MODEL, vector=X, limit=10, path_ids=None, **more)
        scope = IndexScope(tenant=tenant, principal_ids=frozenset(readers))
        return await PgVectorIndex(tx, MODELS, routes or AnnRoutes(SECTION)).search(scope, query)


async def indexes(connection: psycopg.AsyncConnection[Any]) -> list[str]:
    return [row[0] for row in await (await connection.execute(_INDEXES)).fetchall()]


def nearest(entries: list[VectorEntry], reader: int) -> list[str]:
    scored = sorted((-float(one.vector @ X), one.item_id) for one in entries if reader in one.acl)
    return [item_id for _, item_id in scored[:10]]


async def test_a_big_tenant_is_answered_by_its_own_index(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]
) -> None:
    entries = await fill(database_of_memoryfs, BIG, 2_000)
    await fill(database_of_memoryfs, SMALL, 50)
    assert (await search(database_of_memoryfs, BIG, (1,))).exactness is Exactness.EXACT
    assert await upkeep(indexer) == 1
    assert len(await indexes(indexer)) == 2
    assert await upkeep(indexer) == 0
    answer = await search(database_of_memoryfs, BIG, (1,), score_ids=("i01999", "unknown"))
    assert answer.exactness is Exactness.APPROXIMATE
    assert len(set(ids(answer)) & set(nearest(entries, 1))) >= 9
    assert set(answer.scores) == {"i01999"}
    assert (await search(database_of_memoryfs, SMALL, (1,))).exactness is Exactness.EXACT


async def test_the_planner_has_no_say(database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]) -> None:
    # So small a table is as well read whole, and a planner left alone would.
    await fill(database_of_memoryfs, BIG, 2_000, reader_of=40)
    await upkeep(indexer)
    where = f"FROM memoryfs.item_vectors WHERE tenant = '{BIG}' AND model_id = '{MODEL}' AND tier = 1 AND acl && "
    order = " ORDER BY vec::halfvec(8) <=> '[1,0,0,0,0,0,0,0]'::halfvec LIMIT 20"
    async with database_of_memoryfs.tenant(BIG) as tx:
        near = await tx.fetch_planned(AnnRoutes(SECTION).near, f"EXPLAIN SELECT item_id {where} '{{1}}'{order}")
        few = await tx.fetch_planned(FEW, f"EXPLAIN SELECT item_id {where} '{{2}}'")
        for _ in range(8):  # a plan made without the tenant's name would be kept from the sixth time on
            named = await tx.fetch_planned(FEW, f"EXPLAIN SELECT item_id {where} %(readers)s::int4[]", {"readers": [2]})
        left_alone = await tx.fetch_all("SHOW enable_sort")
    assert "Index Scan using item_vectors_near_" in str(near)
    assert "Bitmap Index Scan on item_vectors_few_" in str(few)
    assert "item_vectors_few_" in str(named)
    assert left_alone == [{"enable_sort": "on"}]


async def test_few_matching_rows_are_compared_one_by_one(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]
) -> None:
    entries = await fill(database_of_memoryfs, BIG, 2_000, reader_of=40)
    await upkeep(indexer)
    answer = await search(database_of_memoryfs, BIG, (2,))
    assert (answer.exactness, answer.compared_count) == (Exactness.EXACT, 50)
    assert ids(answer) == nearest(entries, 2)


async def test_that_many_match_is_believed_for_a_minute_by_the_same_readers(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(database_of_memoryfs, BIG, 2_000, reader_of=40)
    await upkeep(indexer)
    counted: list[str] = []
    count = PgVectorIndex._matching

    async def counting(self: PgVectorIndex, params: Mapping[str, Any], conditions: str) -> int:
        counted.append(params["principal_ids"])
        return await count(self, params, conditions)

    monkeypatch.setattr(PgVectorIndex, "_matching", counting)
    clock = ManualClock()
    routes = AnnRoutes(SECTION, clock)
    for readers in ((1,), (1,), (2,), (2,), (1,)):
        answer = await search(database_of_memoryfs, BIG, readers, routes)
        assert answer.exactness is (Exactness.APPROXIMATE if readers == (1,) else Exactness.EXACT)
    assert counted == ["{1}", "{2}", "{2}"], "few are counted each time"
    clock.advance(MANY_S)
    await search(database_of_memoryfs, BIG, (1,), routes)
    assert counted[-1] == "{1}"


async def test_a_short_answer_falls_through_to_the_exact_scan(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]
) -> None:
    # What the reader may see lies farther from the query than the index looks.
    near = [entry(f"n{n:05}", X, acl=(1,)) for n in range(3_000)]
    rng = np.random.default_rng(1)
    far = [entry(f"f{n:03}", random_unit(rng) * np.float32(1), acl=(2,)) for n in range(150)]
    async with database_of_memoryfs.tenant(BIG) as tx:
        await PgVectorIndex(tx, MODELS).upsert(BIG, MODEL, near + far, fresh=True)
    await upkeep(indexer)
    answer = await search(database_of_memoryfs, BIG, (2,))
    assert ids(answer) == nearest(far, 2)
    assert answer.exactness is Exactness.EXACT


async def test_filtered_and_cold_searches_stay_exact(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]
) -> None:
    entries = await fill(database_of_memoryfs, BIG, 1_500)
    async with database_of_memoryfs.tenant(BIG) as tx:
        cold = [entry("cold", X, tier=Tier.COLD)]
        await PgVectorIndex(tx, MODELS).upsert(BIG, MODEL, cold)
    await upkeep(indexer)
    allowed = frozenset(one.item_id for one in entries[:500])
    answer = await search(database_of_memoryfs, BIG, (1,), allowed_ids=allowed)
    assert (answer.exactness, answer.compared_count) == (Exactness.EXACT, 500)
    assert ids(await search(database_of_memoryfs, BIG, (1,), include_cold=True))[0] == "cold"


async def test_a_tenant_that_shrank_loses_its_indexes(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]
) -> None:
    entries = await fill(database_of_memoryfs, BIG, 2_000)
    await fill(database_of_memoryfs, SMALL, 600)
    await upkeep(indexer)
    async with database_of_memoryfs.tenant(BIG) as tx:
        await PgVectorIndex(tx, MODELS).delete(BIG, [one.item_id for one in entries[300:]])
    assert await upkeep(indexer) == 3
    assert await indexes(indexer) == []
    answer = await search(database_of_memoryfs, BIG, (1,))
    assert (answer.exactness, answer.compared_count) == (Exactness.EXACT, 300)


async def test_beyond_the_limit_tenants_stay_with_the_exact_scan(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]
) -> None:
    for tenant in ("a", "b", "c"):
        await fill(database_of_memoryfs, tenant, 1_500)
    assert await upkeep(indexer) == 2
    answers = [await search(database_of_memoryfs, tenant, (1,)) for tenant in ("a", "b", "c")]
    assert sorted(answer.exactness for answer in answers) == ["approximate", "approximate", "exact"]


async def test_two_upkeeps_do_not_build_twice(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any], database: Clone
) -> None:
    await fill(database_of_memoryfs, BIG, 2_000)
    await indexer.execute("ANALYZE memoryfs.item_vectors")
    async with await psycopg.AsyncConnection.connect(database.dsn(roles.INDEXER), autocommit=True) as second:
        done = await asyncio.gather(*(AnnUpkeep(one, SECTION).run_once() for one in (indexer, second)))
    assert sum(done) == 1


async def test_a_killed_build_is_finished_by_the_next_round(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any], database: Clone
) -> None:
    await fill(database_of_memoryfs, BIG, 2_000)
    program = (
        "import asyncio, sys, psycopg\n"
        "from memoryos_core import crashpoints\n"
        "from memoryos_vectors.adapters.pgvector_upkeep import AnnUpkeep\n"
        "from memoryos_vectors.config import PgVectorSection\n"
        f"crashpoints.arm({KILLED_AT!r})\n"
        "async def main():\n"
        "    async with await psycopg.AsyncConnection.connect(sys.argv[1], autocommit=True) as connection:\n"
        "        await AnnUpkeep(connection, PgVectorSection(ann_rows_min=1000)).run_once()\n"
        "asyncio.run(main())\n"
    )
    await indexer.execute("ANALYZE memoryfs.item_vectors")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, database.dsn(roles.INDEXER))
    assert await process.wait() == -signal.SIGKILL
    assert (await search(database_of_memoryfs, BIG, (1,))).exactness is Exactness.EXACT
    assert await upkeep(indexer) == 1
    assert (await search(database_of_memoryfs, BIG, (1,))).exactness is Exactness.APPROXIMATE


async def test_the_indexer_reaches_nothing_else(indexer: psycopg.AsyncConnection[Any]) -> None:
    for table in ("memoryfs.items", "memoryfs.item_tokens", "memoryfs.principals", "core.audit", "core.data_keys"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await indexer.execute(f"SELECT 1 FROM {table} LIMIT 1")


async def test_hostile_tenant_names_are_only_names(
    database_of_memoryfs: Database, indexer: psycopg.AsyncConnection[Any]
) -> None:
    tenant = "o'hara\\'; DROP TABLE memoryfs.item_vectors; -- {near} %s"
    await fill(database_of_memoryfs, tenant, 1_200)
    assert await upkeep(indexer) == 1
    assert (await search(database_of_memoryfs, tenant, (1,))).exactness is Exactness.APPROXIMATE
