"""A database of any earlier release comes up to date, and is then what a fresh one is."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest
from memoryos_postgres import roles
from memoryos_postgres.migrate import MigrationFolder, installed_folders, migrate

pytestmark = pytest.mark.integration
SHAPE = """
    SELECT 'column', table_schema, table_name, column_name, data_type, is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = ANY (%(schemas)s)
    UNION ALL SELECT 'index', schemaname, tablename, indexname, indexdef, '', ''
    FROM pg_indexes WHERE schemaname = ANY (%(schemas)s)
    UNION ALL SELECT 'policy', schemaname, tablename, policyname, cmd, qual, with_check
    FROM pg_policies WHERE schemaname = ANY (%(schemas)s)
    UNION ALL SELECT 'grant', table_schema, table_name, grantee, privilege_type, '', ''
    FROM information_schema.table_privileges WHERE table_schema = ANY (%(schemas)s)
    UNION ALL SELECT 'function', routine_schema, routine_name, specific_name, '', '', ''
    FROM information_schema.routines WHERE routine_schema = ANY (%(schemas)s) AND routine_schema <> 'harness_queue'
    ORDER BY 1, 2, 3, 4, 5
"""
SCHEMAS = ["core", "memoryfs", "policy", "toolgateway", "harness", "harness_queue"]


async def shape(dsn: str) -> list[tuple[object, ...]]:
    """Give everything of the schemas that a service can meet, without the oids in names of functions."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        rows = await (await connection.execute(SHAPE, {"schemas": SCHEMAS})).fetchall()
    return [(*row[:3], str(row[3]).rstrip("0123456789"), *row[4:]) for row in rows]


def release(folders: list[MigrationFolder], target: Path, files_max: int) -> list[MigrationFolder]:
    """Give the migrations as they were when each schema had at most so many files."""
    earlier = []
    for folder in folders:
        copy = target / f"{files_max}-{folder.schema}"
        copy.mkdir()
        for file in sorted(folder.path.glob("*.sql"))[:files_max]:
            shutil.copy(file, copy)
        earlier.append(MigrationFolder(folder.schema, copy))
    return earlier


async def test_every_earlier_release_comes_up_to_date(postgres_server, tmp_path):
    folders = installed_folders()
    fresh = await postgres_server.empty()
    await migrate(fresh.dsn(roles.OWNER), folders)
    wanted = await shape(fresh.admin_dsn)
    assert len(wanted) > 300
    newest = max(len(list(folder.path.glob("*.sql"))) for folder in folders)
    for files_max in range(1, newest):
        old = await postgres_server.empty()
        await migrate(old.dsn(roles.OWNER), release(folders, tmp_path, files_max))
        applied = await migrate(old.dsn(roles.OWNER), folders)
        assert applied, "an earlier release lacks something"
        assert await shape(old.admin_dsn) == wanted
        await postgres_server.drop(old)
    await postgres_server.drop(fresh)
