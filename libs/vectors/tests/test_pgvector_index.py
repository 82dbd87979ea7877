"""The pgvector index under the contract, every call in a committed transaction of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import psycopg
import pytest
from memoryos_postgres import Database, Tx, roles
from memoryos_testing.contracts.vector_index import (
    MODEL,
    MODELS,
    TENANT,
    VectorIndexContract,
    X,
    ask,
    entry,
    ids,
    random_unit,
)
from memoryos_testing.postgres import Clone, DatabaseFactory, PostgresForTests, admin_execute
from memoryos_vectors.adapters.pgvector import PgVectorIndex
from memoryos_vectors.adapters.pgvector_routes import AnnRoutes
from memoryos_vectors.config import PgVectorSection
from memoryos_vectors.models import ACL_MAX, DIMENSIONS_MAX, IndexedModels
from memoryos_vectors.ports import IndexScope, Vector, VectorAnswer, VectorEntry, VectorIndex, VectorQuery

pytestmark = pytest.mark.integration


@pytest.fixture(scope="session")
def migration_schemas() -> tuple[str, ...]:
    return ("core", "memoryfs")


class Committed:
    """A VectorIndex whose every call is one transaction."""

    def __init__(self, database: Database, models: IndexedModels = MODELS, routes: AnnRoutes | None = None) -> None:
        self._database = database
        self._models = models
        self._routes = routes

    async def upsert(self, tenant: str, model_id: str, entries: Sequence[VectorEntry], *, fresh: bool = False) -> None:
        async with self._database.tenant(tenant) as tx:
            await PgVectorIndex(tx, self._models).upsert(tenant, model_id, entries, fresh=fresh)

    async def delete(self, tenant: str, item_ids: Sequence[str]) -> int:
        async with self._database.tenant(tenant) as tx:
            return await PgVectorIndex(tx, self._models).delete(tenant, item_ids)

    async def search(self, scope: IndexScope, query: VectorQuery) -> VectorAnswer:
        async with self._database.tenant(scope.tenant) as tx:
            return await PgVectorIndex(tx, self._models, self._routes).search(scope, query)

    async def vectors(self, tenant: str, model_id: str, item_ids: Sequence[str]) -> Mapping[str, Vector]:
        async with self._database.tenant(tenant) as tx:
            return await PgVectorIndex(tx, self._models).vectors(tenant, model_id, item_ids)


class TestPgVectorIndex(VectorIndexContract):
    @pytest.fixture
    async def index(self, database_factory: DatabaseFactory) -> VectorIndex:
        return Committed(await database_factory(roles.MEMORYFS))

    @pytest.fixture
    def loop_index(
        self, postgres_server: PostgresForTests, migration_schemas: tuple[str, ...]
    ) -> Iterator[tuple[asyncio.Runner, VectorIndex]]:
        with asyncio.Runner() as runner:
            clone = runner.run(postgres_server.clone(migration_schemas))
            database = Database(clone.section, roles.MEMORYFS)
            runner.run(database.open())
            yield runner, Committed(database)
            runner.run(database.close())
            runner.run(postgres_server.drop(clone))


class AlwaysIndexed(AnnRoutes):
    """Sends every search that may be approximate to HNSW."""

    def __init__(self) -> None:
        super().__init__(PgVectorSection(exact_below=0))

    async def indexed(self, tx: Tx, tenant: str, model_id: str) -> bool:
        return True


async def _index_everything(clone: Clone) -> None:
    for model_id, length in MODELS.dimensions.items():
        await admin_execute(
            clone,
            f"CREATE INDEX ON memoryfs.item_vectors USING hnsw ((vec::halfvec({length})) halfvec_cosine_ops)"
            f" WHERE model_id = '{model_id}' AND tier = 1",
        )
    await admin_execute(clone, "CREATE INDEX ON memoryfs.item_vectors USING gin (acl, path_id)")


class TestRoutedToHnsw(VectorIndexContract):
    """The contract where no search is small enough for the exact scan."""

    @pytest.fixture
    async def index(self, database: Clone, database_factory: DatabaseFactory) -> VectorIndex:
        await _index_everything(database)
        return Committed(await database_factory(roles.MEMORYFS), routes=AlwaysIndexed())

    @pytest.fixture
    def loop_index(
        self, postgres_server: PostgresForTests, migration_schemas: tuple[str, ...]
    ) -> Iterator[tuple[asyncio.Runner, VectorIndex]]:
        with asyncio.Runner() as runner:
            clone = runner.run(postgres_server.clone(migration_schemas))
            runner.run(_index_everything(clone))
            database = Database(clone.section, roles.MEMORYFS)
            runner.run(database.open())
            yield runner, Committed(database, routes=AlwaysIndexed())
            runner.run(database.close())
            runner.run(postgres_server.drop(clone))


@pytest.fixture
async def database_of_memoryfs(database_factory: DatabaseFactory) -> Database:
    return await database_factory(roles.MEMORYFS)


async def test_what_is_written_goes_with_its_transaction(database_of_memoryfs: Database) -> None:
    async def write_and_fail() -> None:
        async with database_of_memoryfs.tenant(TENANT) as tx:
            index = PgVectorIndex(tx, MODELS)
            await index.upsert(TENANT, MODEL, [entry("a", X)])
            await index.upsert(TENANT, MODEL, [entry(f"b{n}", X) for n in range(20)], fresh=True)
            assert len(ids(await ask(index, X, limit=50))) == 21
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await write_and_fail()
    assert ids(await ask(Committed(database_of_memoryfs), X)) == []


async def test_the_longest_row_fits_the_covering_index(database_of_memoryfs: Database) -> None:
    tenant, model = "t" * 200, "m" * 128
    index = Committed(database_of_memoryfs, IndexedModels({model: DIMENSIONS_MAX}))
    rng = np.random.default_rng(1)
    big = [
        entry(f"mem_{n:026}", random_unit(rng, DIMENSIONS_MAX), acl=tuple(range(2**31 - ACL_MAX, 2**31)))
        for n in range(20)
    ]
    await index.upsert(tenant, model, big, fresh=True)
    answer = await ask(index, big[7].vector, tenant=tenant, model_id=model, readers=(2**31 - 1,))
    assert ids(answer)[0] == big[7].item_id


async def test_a_search_is_answered_by_the_covering_index_alone(
    database_of_memoryfs: Database, database: Clone
) -> None:
    # Tenants write in turn, as they do in life: a tenant's rows lie apart in the table, together in the index.
    models, rng = IndexedModels({"usem3-512": 512}), np.random.default_rng(5)
    async with database_of_memoryfs.tenant(TENANT) as tx:
        for number in range(250):
            row = [entry(f"mem_{number:026}", random_unit(rng, 512))]
            for tenant in range(8):
                await PgVectorIndex(tx, models).upsert(f"t{tenant}", "usem3-512", row, fresh=True)
    await admin_execute(database, "CHECKPOINT")  # rows of a commit that is not flushed yet are not all-visible
    await admin_execute(database, "VACUUM ANALYZE memoryfs.item_vectors")
    async with await psycopg.AsyncConnection.connect(database.admin_dsn, autocommit=True) as admin:
        # So small a table is as well read whole: leave the planner the indexes only.
        await admin.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        plan = await (
            await admin.execute(
                "EXPLAIN SELECT item_id, revision, vec FROM memoryfs.item_vectors WHERE tenant = 't3'"
                " AND model_id = 'usem3-512' AND tier = ANY ('{1}') AND path_id = ANY ('{10}') AND acl && '{1}'"
            )
        ).fetchall()
    assert "Index Only Scan using item_vectors_scan" in "\n".join(row[0] for row in plan)
