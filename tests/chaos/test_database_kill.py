"""I6: kill -9 of PostgreSQL loses no acknowledged row, and no row is without its audit row (I9)."""

import asyncio
import itertools

import pytest
from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_audit.head import Head
from memoryos_audit.seal_key import PublicSealKeys, SealKey, create_seal_key, public_file
from memoryos_audit.sealer.sealer import Sealer
from memoryos_audit.verify import verify
from memoryos_core.errors import DependencyUnavailable
from memoryos_postgres import Database, PostgresSection, roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.embedded import EmbeddedPostgres
from memoryos_postgres.migrate import installed_folders, migrate
from memoryos_testing import scope_of

pytestmark = pytest.mark.chaos

WRITERS = 4
ROUNDS = 3
ROWS_PER_ROUND = 60
INSERT = "INSERT INTO core.data_keys (tenant, key_id, subject_hmac, wrapped, epoch_id) VALUES (%s, %s, %s, 'x', 'e')"


async def test_acknowledged_rows_survive_with_their_audit(tmp_path):
    numbers = itertools.count(1)
    acknowledged: set[str] = set()

    async def write_until(db, enough):
        while len(acknowledged) < enough:
            name = f"k{next(numbers)}"
            try:
                async with db.tenant("acme") as tx:
                    await tx.execute(INSERT, ("acme", name.encode().rjust(16, b"-"), name))
                    actor = Actor.of(scope_of("acme"))
                    record(tx, AuditEvent(kind=Kind.MEMORY_WRITE, actor=actor, service="t", target_ids=[name]))
            except DependencyUnavailable:
                return
            acknowledged.add(name)

    create_seal_key(tmp_path / "seal.pem")
    keys = PublicSealKeys.load(public_file(tmp_path / "seal.pem"))
    with EmbeddedPostgres(tmp_path) as server:
        await bootstrap(server.admin_dsn(), "memoryos", tmp_path / "secrets")
        section = PostgresSection(port=server.port, database="memoryos", secrets_dir=tmp_path / "secrets")
        await migrate(section.dsn(roles.OWNER), installed_folders(["core"]))
        for round_ in range(1, ROUNDS + 1):
            async with Database(section, roles.MEMORYFS) as db, Database(section, roles.SEALER) as sealer_db:
                sealer = Sealer(sealer_db, SealKey.load(tmp_path / "seal.pem"), keys, tmp_path / "head.json")
                enough = round_ * ROWS_PER_ROUND
                writers = [asyncio.create_task(write_until(db, 10 * enough)) for _ in range(WRITERS)]
                while len(acknowledged) < enough:
                    await sealer.seal()
                server.kill()
                await asyncio.gather(*writers)
            server.start()
        async with Database(section, roles.MEMORYFS) as db, db.tenant("acme") as tx:
            kept = {row["subject_hmac"] for row in await tx.fetch_all("SELECT subject_hmac FROM core.data_keys")}
            rows = await tx.fetch_all("SELECT target_ids FROM core.audit")
        assert acknowledged <= kept
        assert sorted(row["target_ids"][0] for row in rows) == sorted(kept)
        async with Database(section, roles.SEALER) as sealer_db:
            report = await verify(sealer_db, keys, Head.load(tmp_path / "head.json"))
        assert report.ok, report.failures
        assert report.sealed_rows > 0
