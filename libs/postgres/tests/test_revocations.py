"""What is revoked stays so for its tenant until it is restored, erasure of its name or not."""

import pytest
from memoryos_core.errors import InvalidField
from memoryos_core.tokens import Identity
from memoryos_postgres import roles
from memoryos_postgres.errors import AccessRefused
from memoryos_postgres.remains import Remains, Sought
from memoryos_postgres.revocations import Revocations, checked_subject, subjects_of
from memoryos_testing import scope_of

TASK = "task_" + "0" * 26


@pytest.fixture
async def harness(database_factory):
    return await database_factory(roles.HARNESS)


@pytest.fixture
def revocations(key_ring):
    return Revocations(key_ring)


@pytest.fixture
def ask(harness, revocations):
    async def asked(*subjects, tenant="acme"):
        async with harness.scoped(scope_of(tenant)) as tx:
            return await revocations.is_revoked(tx, tenant, subjects)

    return asked


async def test_one_question_finds_any_of_several_subjects_of_its_own_tenant(harness, revocations, ask):
    admin = scope_of(user="admin")
    async with harness.scoped(admin) as tx:
        first = await revocations.revoke(tx, admin, "agent:u42/helper")
    assert (first.subject, first.actor) == ("agent:u42/helper", "user:admin")
    assert await ask("user:u42", "agent:u42/helper", TASK)
    assert not await ask("user:u42", "agent:u42/help", "agent:u4/helper", "helper")
    assert not await ask()
    assert not await ask("agent:u42/helper", tenant="globex")
    async with harness.scoped(scope_of("globex")) as tx:
        assert not await revocations.list(tx, scope_of("globex"))
        assert not await revocations.restore(tx, scope_of("globex"), "agent:u42/helper")
    assert await ask("agent:u42/helper")


async def test_revoked_twice_it_is_the_first_one_and_restored_it_is_none(harness, revocations, ask):
    admin, other = scope_of(user="admin"), scope_of(user="other")
    for scope in (admin, other):
        async with harness.scoped(scope) as tx:
            assert (await revocations.revoke(tx, scope, "user:u42")).actor == "user:admin"
    async with harness.scoped(admin) as tx:
        await revocations.revoke(tx, admin, TASK)
        assert [seen.subject for seen in await revocations.list(tx, admin)] == [TASK, "user:u42"]
        assert await revocations.restore(tx, admin, "user:u42")
        assert not await revocations.restore(tx, admin, "user:u42")
    assert not await ask("user:u42")
    assert await ask("user:u42", TASK)


async def test_erasure_takes_the_name_and_leaves_the_revocation(harness, database_factory, revocations, ask):
    admin = scope_of(user="admin")
    async with harness.scoped(admin) as tx:
        for subject in ("user:u42", "agent:u42/helper", "user:u4"):
            await revocations.revoke(tx, admin, subject)
    memoryfs = await database_factory(roles.MEMORYFS)
    remains = Remains(memoryfs, ["core"])
    for user in ("u42", "admin"):
        assert (await remains.find("acme", Sought(user=user)))["core.revocations"] > 0
        async with memoryfs.upkeep("acme") as tx:
            await remains.pseudonymise(tx, "acme", Sought(user=user), "user:erased-1")
        assert (await remains.find("acme", Sought(user=user)))["core.revocations"] == 0
    for subject in ("user:u42", "agent:u42/helper", "user:u4"):
        assert await ask(subject)


@pytest.mark.parametrize("role", [roles.TOOLGATEWAY, roles.POLICY, roles.MEMORYFS])
async def test_no_other_service_revokes_or_restores(database_factory, revocations, role):
    admin = scope_of(user="admin")
    other = await database_factory(role)
    for act in (revocations.revoke, revocations.restore):
        with pytest.raises(AccessRefused):
            async with other.scoped(admin) as tx:
                await act(tx, admin, "user:u42")


@pytest.mark.parametrize(
    "subject",
    ["", "u42", "user:", "user:a/b", "user:*", "agent:u42", "agent:u42/", "agent:u42/..", "agent:/x", "agent:u/a/b",
     "role:user", "group:all", "tenant:*", "task_1", "task_" + "0" * 27, "user:a\u200b", "user:e\u0301", TASK + "\n"],
)  # fmt: skip
def test_what_names_nobody_is_refused(subject):
    with pytest.raises(InvalidField):
        checked_subject(subject)


def test_user_every_agent_and_every_task_of_a_chain_stop_its_tokens():
    identity = Identity(tenant="acme", user="u42", roles=frozenset({"agent"}), chain=("a", "b"), task_id="task_2")
    assert subjects_of(identity, tasks=("task_1", "task_2")) == (
        "user:u42", "agent:u42/a", "agent:u42/b", "task_2", "task_1",
    )  # fmt: skip
