"""Content is sealed: a word written into every text field is found in clear nowhere but in declared index columns."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psycopg
import pytest
from memoryos_postgres.roles import password_file
from memoryos_postgres.secret_files import read_secret
from memoryos_sdk import DecisionFilter
from psycopg import sql

from .conftest import World

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]
CANARY = "zq7canary"
EPISODIC = "/tenants/acme/memory/episodic"
CHINESE = "金丝雀暗号甲乙丙"
HEAD_CHARS = 16
"""Of a token, what is the same in all: its algorithm."""
PLAIN = ["memoryfs.items.attributes"]
"""Declared index columns: what attributes can be filtered by stands in plain (docs/security.md)."""


async def write_everywhere(world: World) -> None:
    """Put the canary into every field of text that a user can fill."""
    client = world.client("u-canary")
    await client.memory.write(
        f"{EPISODIC}/u-canary/{CANARY}path",
        content=f"content {CANARY} {CHINESE}",
        meta={
            "attributes": {"event_type": CANARY, CANARY: [CHINESE]},
            "event_key": {"subject": CANARY, "scope": CHINESE, "condition": CANARY},
            "source": {"document": f"{CANARY}.pdf", "page": 3},
        },
    )
    await write_everywhere_in_memory(world)
    await client.memory.read(EPISODIC, query=f"{CANARY} {CHINESE}")
    session = await client.sessions.create()
    await client.sessions.append(session.id, [{"role": "user", "content": f"message {CANARY} {CHINESE}"}])
    task = await client.tasks.submit("assistant", session_id=session.id, input=f"以后 {CANARY} {CHINESE}")
    ended = await client.tasks.wait(task.id, timeout_s=60)
    assert ended.state == "succeeded", ended
    await client.tools.call("ticket.get", {"ticket_id": CANARY})
    call = await client.tools.call("memory.write", {"content": f"told {CANARY}", "path": f"{EPISODIC}/u-canary"})
    assert call.state == "succeeded", call
    parked = await client.tools.call("refund.create", {"order_id": CANARY, "amount": 700})
    reviewer = world.client("r-canary", roles=("reviewer",), groups=("finance",))
    await reviewer.reviews.deny(parked.review_id, comment=f"no {CANARY} {CHINESE}")
    await read_everything(world, parked.decision_id)


async def read_everything(world: World, decision_id: str) -> None:
    """Let people who audit read what was decided on, in every way that there is."""
    auditor = world.client("aud-canary", roles=("auditor",))
    seen = await auditor.decisions.get(decision_id, with_input=True)
    assert seen.input["args"]["order_id"] == CANARY
    assert [one.id async for one in auditor.decisions.list(DecisionFilter(call_id=seen.call_id), with_input=True)]
    explained = await auditor.decisions.explain(decision_id)
    assert explained.same
    assert explained.fired


async def write_everywhere_in_memory(world: World) -> None:
    """The texts of MemoryFS beside those of items."""
    client, here = world.client("u-canary"), f"{EPISODIC}/u-canary/more"
    doubtful = await client.memory.write(here, content=f"doubt {CANARY}", meta={"confidence": 0.2})
    await client.memory.promote(here, doubtful.id, reason=f"because {CANARY}")
    await client.memory.dispute(here, doubtful.id, reason=f"not {CHINESE}")
    pair = [await client.memory.write(here, content=f"{word} {CANARY}") for word in ("one", "another thing")]
    await client.memory.merge(here, [one.id for one in pair], content=f"both {CHINESE} {CANARY}")
    snapshot = await client.memory.create_snapshot(here, title=f"title {CANARY} {CHINESE}")
    await client.memory.rollback(here, snapshot.id)
    await client.memory.bind(session="ses-canary", read_paths=[f"{here}/{CANARY}"])
    await client.memory.move(here, f"{EPISODIC}/u-canary/{CANARY}moved")
    erased = await client.memory.write(here, content=f"erased {CANARY}")
    job = await client.memory.purge(path=here, ids=[erased.id], reason=f"asked {CANARY} {CHINESE}")
    assert (await client.jobs.wait(job.id)).state == "succeeded"
    admin = world.client("a-canary", roles=("user", "tenant-admin"))
    await admin.memory.set_settings(f"{EPISODIC}/u-canary/{CANARY}settings", gate=0.5)


def postgres_port(world: World) -> int:
    run = json.loads((world.stack.folder / "run" / "status.json").read_text())
    return int(next(child["address"].rsplit(":", 1)[1] for child in run["children"] if child["name"] == "postgres"))


def admin_dsn(world: World) -> str:
    port = postgres_port(world)
    password = read_secret(password_file(world.stack.folder / "secrets", "postgres"))
    return f"host=127.0.0.1 port={port} dbname=memoryos user=postgres password={password}"


def needles(token: str) -> list[bytes]:
    """The canaries, one token whole and by its signature, and how every token of ours begins, services' too."""
    head = token.split(".")[0].encode()[:HEAD_CHARS]
    return [CANARY.encode(), CHINESE.encode(), token.encode(), token.split(".")[2].encode(), head]


async def columns_with(world: World, wanted: list[bytes]) -> list[str]:
    """Give every column of the database that holds one of `wanted`, as text or as bytes."""
    found = []
    async with await psycopg.AsyncConnection.connect(admin_dsn(world)) as connection:
        columns = await (
            await connection.execute(
                "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns"
                " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
                " AND (table_schema, table_name) IN (SELECT schemaname, tablename FROM pg_tables)"
            )
        ).fetchall()
        assert len(columns) > 100
        for schema, table, column, kind in columns:
            value = sql.Identifier(column) if kind == "bytea" else sql.SQL("convert_to({}::text, 'UTF8')").format(
                sql.Identifier(column)
            )  # fmt: skip
            query = sql.SQL("SELECT count(*) FROM {}.{} WHERE {}").format(
                sql.Identifier(schema),
                sql.Identifier(table),
                sql.SQL(" OR ").join(
                    sql.SQL("position({} in {}) > 0").format(sql.Literal(needle), value) for needle in wanted
                ),
            )
            row = await (await connection.execute(query)).fetchone()
            if row and row[0]:
                found.append(f"{schema}.{table}.{column}")
    return found


def files_with(folders: list[Path], wanted: list[bytes]) -> list[str]:
    """Give the files below `folders` that hold one of `wanted`."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(needle in path.read_bytes() for needle in wanted)]


async def test_a_canary_is_in_clear_nowhere(world):
    await write_everywhere(world)
    token = world.stack.token("acme", "u-canary")
    wanted = needles(token)
    assert await columns_with(world, wanted) == PLAIN
    data = world.stack.folder
    leaks = await asyncio.to_thread(files_with, [data / "logs", data / "spans", data / "run"], wanted)
    assert leaks == []


async def test_the_search_would_find_what_is_in_clear(world):
    """The test above is worth something: a tag, which is declared to be plain, is found."""
    client = world.client("u-canary")
    await client.memory.write(f"{EPISODIC}/u-canary", content="tagged", meta={"tags": ["plain-zq8tag"]})
    assert "memoryfs.items.tags" in await columns_with(world, [b"plain-zq8tag"])
