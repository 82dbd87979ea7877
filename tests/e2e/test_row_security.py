"""Row-level security alone: a service's role that forgets every WHERE clause sees nothing of another tenant."""

from __future__ import annotations

import psycopg
import pytest
from memoryos_postgres.roles import password_file
from memoryos_postgres.secret_files import read_secret
from psycopg import sql

from .conftest import World
from .test_canary import postgres_port
from .test_strangers import own

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
ROLES = ("memoryos_memoryfs", "memoryos_harness", "memoryos_toolgateway", "memoryos_policy")
TABLES = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relrowsecurity AND has_schema_privilege(n.oid, 'USAGE')
        AND has_table_privilege(c.oid, 'SELECT')
"""
SCOPE = """
    SELECT set_config('memoryos.tenant', %s, true), set_config('memoryos.user', 'u-owner', true),
        set_config('memoryos.principals', '{user:u-owner,role:user,role:agent,tenant:*}', true),
        set_config('memoryos.clearance', '9', true)
"""


async def tenants_seen(world: World, role: str, tenant: str) -> dict[str, list[str]]:
    """Give, for every table under row-level security, the tenants whose rows a bare SELECT shows."""
    password = read_secret(password_file(world.stack.folder / "secrets", role))
    dsn = f"host=127.0.0.1 port={postgres_port(world)} dbname=memoryos user={role} password={password}"
    seen = {}
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        for schema, table in await (await connection.execute(TABLES)).fetchall():
            await connection.execute(SCOPE, (tenant,))
            query = sql.SQL("SELECT DISTINCT tenant FROM {}.{}").format(sql.Identifier(schema), sql.Identifier(table))
            rows = await (await connection.execute(query)).fetchall()
            seen[f"{schema}.{table}"] = [name for (name,) in rows]
            await connection.rollback()
    return seen


@pytest.mark.parametrize("role", ROLES)
async def test_a_select_without_where_shows_one_tenant(world, owned, role):
    await own(world, owned)
    rival = world.client("u-owner", tenant="rival")
    await rival.memory.write("/tenants/rival/memory/episodic", content="of the rival")
    mine = await tenants_seen(world, role, "acme")
    theirs = await tenants_seen(world, role, "rival")
    assert len([table for table, tenants in mine.items() if tenants]) >= 4, "the tables hold something to hide"
    assert {name for tenants in mine.values() for name in tenants} <= {"acme"}
    assert {name for tenants in theirs.values() for name in tenants} <= {"rival"}
