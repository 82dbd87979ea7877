"""Schema harness: the conventions, the queue as published, and nothing in clear."""

from pathlib import Path

import pytest
from memoryos_harness.agent_schema import agent_schema_text
from memoryos_harness.domain.agents import Agent
from memoryos_postgres import roles
from memoryos_testing.schema import assert_columns_classified, assert_row_security, assert_tenant_first
from psycopg import AsyncConnection, errors

from .world import ENDED

CANARY = "canary-7f3a-金丝雀"


async def test_tables_keep_the_conventions(database) -> None:
    await assert_columns_classified(database.admin_dsn)
    await assert_tenant_first(database.admin_dsn)
    await assert_row_security(database.admin_dsn, without=("harness.due_tasks", "harness.sweeps"))


async def test_the_service_role_owns_and_reaches_nothing_beyond_its_user(world) -> None:
    client = world.client()
    task = await client.submit("hello", "plain")
    async with await AsyncConnection.connect(world.database.dsn(roles.HARNESS), autocommit=True) as service:
        for table in ("sessions", "messages", "tasks", "task_events"):
            with pytest.raises(errors.Error, match=r"has no (tenant|user)"):
                await service.execute(f"SELECT count(*) FROM harness.{table}".encode())
        await service.execute("SELECT set_config('memoryos.tenant', 'acme', false)")
        await service.execute("SELECT set_config('memoryos.user', 'u7', false)")
        for table in ("sessions", "messages", "tasks", "steps", "task_events"):
            row = await (await service.execute(f"SELECT count(*) FROM harness.{table}".encode())).fetchone()
            assert row == (0,), table
        changed = await service.execute("UPDATE harness.tasks SET state = 'DEAD', end_time = now()")
        assert changed.rowcount == 0
        await service.execute("SELECT set_config('memoryos.user', 'u42', false)")
        row = await (await service.execute("SELECT id FROM harness.tasks")).fetchone()
        assert row == (task.id,)
        deleted = await service.execute("DELETE FROM harness.tasks")  # erasure alone does
        assert deleted.rowcount == 0
        with pytest.raises(errors.InsufficientPrivilege):
            await service.execute("UPDATE harness.task_events SET state = 'X'")


async def test_no_column_of_the_database_holds_content_in_clear(world) -> None:
    client = world.client()
    await client.start_session()
    world.model.script = lambda request: f"{CANARY} answer"
    task = await client.submit(f"{CANARY} question", "helper")
    async with world.worker():
        ended = await client.ended(task.id)
    assert ended.state in ENDED
    assert CANARY in ended.output
    async with await AsyncConnection.connect(world.database.admin_dsn) as admin:
        tables = await (
            await admin.execute(
                "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.relkind = 'r' AND n.nspname IN ('core', 'harness', 'harness_queue')"
            )
        ).fetchall()
        assert len(tables) > 8
        for schema, table in tables:
            rows = await (await admin.execute(f'SELECT t::text FROM {schema}."{table}" t'.encode())).fetchall()
            text = "\n".join(str(row[0]) for row in rows)
            assert CANARY not in text, (schema, table)
            assert CANARY.encode().hex() not in text, (schema, table)
    spans = "".join(path.read_text() for path in (world.folder / "spans").iterdir())
    assert CANARY not in spans


async def test_audit_has_the_start_and_the_end_of_a_task(world) -> None:
    client = world.client()
    task = await client.submit("use:mes__takt A")
    async with world.worker():
        await client.ended(task.id)
    async with await AsyncConnection.connect(world.database.admin_dsn) as admin:
        rows = await (
            await admin.execute(
                "SELECT kind, actor, chain, outcome, trace_id FROM core.audit WHERE task_id = %s ORDER BY seq",
                (task.id,),
            )
        ).fetchall()
    assert [(row[0], row[1], row[2], row[3]) for row in rows] == [
        ("TASK_STARTED", "user:u42", None, "OK"),
        ("TASK_FINISHED", "agent:u42/helper", ["helper"], "OK"),
    ]
    assert {row[4] for row in rows} == {task.trace_id}


def test_the_published_schema_of_agent_files_is_the_one_that_is_enforced() -> None:
    published = (Path(__file__).parents[1] / "schemas" / "agent.schema.json").read_text()
    assert published == agent_schema_text()
    assert Agent.model_config["extra"] == "forbid"
