"""Erasure in the harness: a person goes whole, an item goes out of the steps that recalled it, nobody else changes."""

from __future__ import annotations

import pytest
from memoryos_core.scope import Scope
from memoryos_harness.adapters.erasure import holdings_of
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import owner_scope
from memoryos_postgres import roles
from memoryos_postgres.remains import Remains, Sought

pytestmark = pytest.mark.integration
ITEMS = [f"mem_01ARZ3NDEKTSV4RRFFQ69G5FA{letter}" for letter in "ABC"]


@pytest.fixture
async def db(database_factory):
    return await database_factory(roles.HARNESS)


@pytest.fixture
def sealed(key_ring):
    return SealedColumns(key_ring)


async def live(db, sealed, user: str, tenant: str = "acme", item_ids=()) -> Scope:
    """Make a session with a message, and a task with a step that recalled the items."""
    scope = owner_scope(tenant, user)
    output = {"hits": [{"id": item_id, "content": f"canary {item_id}"} for item_id in item_ids]}
    async with db.scoped(scope) as tx:
        blob = await sealed.seal_text(tx, scope, "messages.content", "m", "my message")
        step = await sealed.seal_json(tx, scope, "steps.output", f"step-{user}", output)
        names = {"tenant": tenant, "user": user, "blob": blob, "step": step, "items": list(item_ids)}
        for statement in (
            "INSERT INTO harness.sessions (tenant, id, user_id) VALUES (%(tenant)s, %(user)s, %(user)s)",
            "INSERT INTO harness.messages (tenant, session_id, sequence, id, user_id, role, sealed_content)"
            " VALUES (%(tenant)s, %(user)s, 1, %(user)s, %(user)s, 'USER', %(blob)s)",
            "INSERT INTO harness.message_words (tenant, user_id, message_id, session_id, sequence, role, hashes)"
            " VALUES (%(tenant)s, %(user)s, %(user)s, %(user)s, 1, 'USER', '{1,2}')",
            "INSERT INTO harness.tasks (tenant, id, user_id, agent_chain, session_id, question_sequence, agent,"
            " agent_version, sealed_agent, sealed_grant, sealed_input, deadline_time, traceparent) VALUES (%(tenant)s,"
            " %(user)s, %(user)s, '{}', %(user)s, 1, 'a', '1', %(blob)s, %(blob)s, %(blob)s, now(), '')",
            "INSERT INTO harness.steps (tenant, task_id, sequence, id, user_id, kind, state, target, sealed_input,"
            " sealed_output, item_ids, lease_epoch, end_time) VALUES (%(tenant)s, %(user)s, 1, 'step-' || %(user)s,"
            " %(user)s, 'MEMORY_READ', 'DONE', 'recall', %(blob)s, %(step)s, %(items)s::text[], 1, now())",
        ):
            await tx.execute(statement, names)
    return scope


async def rows(db, scope: Scope) -> list[int]:
    async with db.scoped(scope) as tx:
        return [
            await tx.fetch_value(f"SELECT count(*) FROM harness.{table}")
            for table in ("sessions", "messages", "tasks", "steps")
        ]


async def test_a_person_goes_batch_by_batch_and_nobody_else(db, sealed):
    alice = await live(db, sealed, "alice")
    others = [await live(db, sealed, "bob"), await live(db, sealed, "alice", tenant="globex")]
    sought, removed = Sought(user="alice"), {}
    for _ in range(2):
        for table, statement in holdings_of(sealed).of_user.items():
            async with db.upkeep("acme") as tx:
                removed[table] = removed.get(table, 0) + await tx.execute(
                    statement, {**sought.parameters, "tenant": "acme", "limit": 100}
                )
    assert removed["harness.messages"] == removed["harness.steps"] == removed["harness.sessions"] == 1
    assert removed["harness.message_words"] == 1
    assert await rows(db, alice) == [0, 0, 0, 0]
    assert [await rows(db, other) for other in others] == [[1, 1, 1, 1]] * 2
    assert set((await Remains(db, ["harness"]).find("acme", sought)).values()) == {0}


async def test_a_family_goes_children_first_however_small_the_batches(db, sealed):
    alice = await live(db, sealed, "alice")
    async with db.scoped(alice) as tx:
        for child, parent, depth in (("a-child", "alice", 1), ("a-grandchild", "a-child", 2)):
            await tx.execute(
                "INSERT INTO harness.tasks (tenant, id, user_id, agent_chain, session_id, question_sequence, agent,"
                " agent_version, sealed_agent, sealed_grant, sealed_input, deadline_time, traceparent, parent_task_id,"
                " depth) SELECT tenant, %s, user_id, agent_chain, session_id, 0, agent, agent_version, sealed_agent,"
                " sealed_grant, sealed_input, deadline_time, '', %s, %s FROM harness.tasks WHERE id = 'alice'",
                (child, parent, depth),
            )
    sought = Sought(user="alice")
    for table, statement in holdings_of(sealed).of_user.items():
        for _ in range(4):
            async with db.upkeep("acme") as tx:
                await tx.execute(statement, {**sought.parameters, "tenant": "acme", "limit": 1})
        assert table
    assert await rows(db, alice) == [0, 0, 0, 0]


async def test_an_item_leaves_the_steps_of_whoever_recalled_it(db, sealed):
    bob = await live(db, sealed, "bob", item_ids=ITEMS)
    twin = await live(db, sealed, "bob", tenant="globex", item_ids=ITEMS)
    of_items = holdings_of(sealed).of_items
    async with db.upkeep("acme") as tx:
        assert await of_items(tx, "acme", ITEMS[:2], 100) == {"harness.steps": 1}
    async with db.upkeep("acme") as tx:
        assert not any((await of_items(tx, "acme", ITEMS[:2], 100)).values())
    for scope, left in ((bob, ITEMS[2:]), (twin, ITEMS)):
        async with db.scoped(scope) as tx:
            row = await tx.fetch_one("SELECT item_ids, sealed_output FROM harness.steps")
            output = await sealed.open_json(tx, scope, "steps.output", "step-bob", row["sealed_output"])
        assert row["item_ids"] == left
        assert [hit["id"] for hit in output["hits"]] == left
    found = await Remains(db, ["harness"]).find("acme", Sought(ids=tuple(ITEMS[:2])))
    assert set(found.values()) == {0}
