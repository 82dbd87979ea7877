"""A grant that was written by somebody else than the harness makes no token, though its seal is right."""

from typing import Any

import pytest
from memoryos.harness.v1 import tasks_pb2
from memoryos_harness.adapters.sealed_columns import SealedColumns
from memoryos_harness.adapters.task_rows import owner_scope
from memoryos_postgres import roles
from memoryos_postgres.keyring import PostgresKeyRing, load_epoch_key

from .family import ask, children, family_script, say, use
from .world import CLOCK

DEAD = tasks_pb2.TASK_STATE_DEAD
ME = owner_scope("acme", "u42")
ALL = "/tenants/acme/memory/episodic"


def last(**changes: Any):
    """Change claims of the last link."""
    return lambda links: [*links[:-1], {**links[-1], **changes}]


FORGED = {
    "more roles": last(roles=["agent", "tenant-admin", "user"]),
    "more groups": last(groups=["board"]),
    "a higher clearance": last(clearance=9),
    "wider reads": last(read_paths=[ALL]),
    "wider writes": last(write_paths=[ALL]),
    "no ceiling": last(read_paths=None),
    "a place of another tenant": last(read_paths=["/tenants/globex/memory/episodic/u42"]),
    "more services": last(audience=["harness", "memoryfs", "policy", "tool-gateway"]),
    "another user": last(user="u43"),
    "another tenant": last(tenant="globex"),
    "another task": last(task_id="task_00000000000000000000000000"),
    "another session": last(session_id="ses_00000000000000000000000000"),
    "a link left out of its chain": last(chain=["scout", "scout"]),
    "an agent put before": last(chain=["boss", "helper"]),
    "no agent": last(chain=[]),
    "links in another order": lambda links: links[::-1],
    "a link twice": lambda links: [*links, links[-1]],
    "who asked left out": lambda links: links[1:-1] or [],
    "another one who asked": lambda links: [{**links[0], "user": "u43"}, *links[1:]],
}


@pytest.fixture(autouse=True)
def scripted(world):
    world.model.script = family_script


@pytest.fixture
async def seal(world, database_factory):
    """Give the sealed grant of a task anew, changed."""
    database = await database_factory(roles.HARNESS)
    sealed = SealedColumns(PostgresKeyRing(load_epoch_key(world.folder / "epoch.key"), CLOCK))

    async def changed(task_id, change):
        async with database.scoped(ME) as tx:
            kept = await tx.fetch_value("SELECT sealed_grant FROM harness.tasks WHERE id = %s", (task_id,))
            grant: Any = await sealed.open_json(tx, ME, "tasks.grant", task_id, kept)
            links = change(grant["links"])
            blob = await sealed.seal_json(tx, ME, "tasks.grant", task_id, {"links": links})
            await tx.execute("UPDATE harness.tasks SET sealed_grant = %s WHERE id = %s", (blob, task_id))

    return changed


@pytest.fixture
async def move(database_factory):
    """Give one task the grant of another."""
    database = await database_factory(roles.HARNESS)

    async def moved(task_id, other_id):
        async with database.scoped(ME) as tx:
            await tx.execute(
                "UPDATE harness.tasks SET sealed_grant ="
                " (SELECT sealed_grant FROM harness.tasks WHERE id = %s) WHERE id = %s",
                (other_id, task_id),
            )

    return moved


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
async def test_a_chain_that_is_not_whole_calls_nothing(world, seal, change) -> None:
    user = world.client(read_paths=(f"{ALL}/u42",), write_paths=(f"{ALL}/u42",))
    task = await user.submit(say(use("mes.takt")), "scout")
    await seal(task.id, change)
    async with world.worker():
        ended = await user.ended(task.id)
    assert (ended.state, ended.error_code) == (DEAD, "not_allowed")
    assert not world.model.requests
    assert not world.tools.identities
    assert not world.memory.bound


async def test_the_chain_of_a_child_does_not_outgrow_its_parents(world, seal) -> None:
    user = world.client()
    task = await user.submit(say(ask("scout", use("mes.takt"))), "boss")
    await world.died(await world.worker_process(crash_point="harness.child.after_start", concurrency=1))
    (scout,) = await children(user, task.id)
    await seal(scout.id, last(read_paths=[ALL]))  # the person may read it, the parent may not
    async with world.worker():
        await user.ended(task.id)
    ended = await user.get(scout.id)
    assert (ended.state, ended.error_code) == (DEAD, "not_allowed")
    assert not world.tools.calls


async def test_the_grant_of_another_task_of_the_same_person_does_not_open(world, move) -> None:
    user = world.client()
    wide = await user.submit(say(use("mes.takt")), "helper")
    task = await user.submit(say(use("mes.takt")), "scout")
    await move(task.id, wide.id)
    async with world.worker():
        ended = await user.ended(task.id)
    assert (ended.state, ended.error_code) == (DEAD, "sealed_key_unavailable")
    assert {who.task_id for who in world.tools.identities} <= {wide.id}
