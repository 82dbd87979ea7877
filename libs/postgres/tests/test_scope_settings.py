"""I1: the transaction's scope is what the tables obey, and it does not outlive the transaction."""

from dataclasses import replace

import pytest
from memoryos_postgres import roles
from memoryos_postgres.database import array_literal
from memoryos_postgres.errors import AccessRefused, DatabaseFault, ScopeMissing
from memoryos_testing.scopes import scope_of

KEY = "INSERT INTO core.data_keys (tenant, key_id, subject_hmac, wrapped, epoch_id) VALUES (%s, %s, %s, 'x', 'e')"


async def _one_key_each(db, *tenants):
    for number, tenant in enumerate(tenants):
        async with db.tenant(tenant) as tx:
            await tx.execute(KEY, (tenant, bytes([number]) * 16, "s"))


async def test_a_statement_without_where_sees_nothing_of_another_tenant(database_factory):
    db = await database_factory(roles.MEMORYFS)
    await _one_key_each(db, "acme", "globex")
    async with db.scoped(scope_of("acme")) as tx:
        assert [row["tenant"] for row in await tx.fetch_all("SELECT * FROM core.data_keys")] == ["acme"]


async def test_a_row_of_another_tenant_cannot_be_written(database_factory):
    db = await database_factory(roles.MEMORYFS)
    with pytest.raises(AccessRefused):
        async with db.scoped(scope_of("acme")) as tx:
            await tx.execute(KEY, ("globex", b"x" * 16, "s"))


@pytest.mark.parametrize("setting", ["tenant", "principals", "user", "clearance"])
async def test_scope_is_empty_on_a_reused_connection_and_access_then_errors(database, setting):
    from memoryos_postgres import Database

    section = database.section.model_copy(update={"pool_size": 1})
    async with Database(section, roles.MEMORYFS) as db:
        await _one_key_each(db, "acme")
        async with db.scoped(scope_of("acme")) as tx:
            first = await tx.fetch_value("SELECT pg_backend_pid()")
            assert await tx.fetch_value("SELECT count(*) FROM core.data_keys") == 1
        async with db.unscoped() as tx:
            assert await tx.fetch_value("SELECT pg_backend_pid()") == first
            assert await tx.fetch_value(f"SELECT current_setting('memoryos.{setting}', true)") == ""
        function = {"user": "user_name"}.get(setting, setting)
        with pytest.raises(ScopeMissing):
            async with db.unscoped() as tx:
                await tx.fetch_value(f"SELECT core.{function}()")
        with pytest.raises(ScopeMissing):
            async with db.unscoped() as tx:
                await tx.fetch_all("SELECT * FROM core.data_keys")


async def test_scope_unset_errors_on_a_fresh_connection(database_factory):
    db = await database_factory(roles.MEMORYFS)
    with pytest.raises(ScopeMissing):
        async with db.unscoped() as tx:
            await tx.fetch_all("SELECT * FROM core.data_keys")


async def test_an_empty_tenant_is_an_error_not_a_wildcard(database_factory):
    db = await database_factory(roles.MEMORYFS)
    with pytest.raises(ScopeMissing):
        async with db.tenant("") as tx:
            await tx.fetch_all("SELECT * FROM core.data_keys")


@pytest.mark.parametrize(
    "tenant",
    [
        "acme' OR '1'='1",
        "acme'); DELETE FROM core.data_keys; --",
        "a\\'b",
        "a\\",
        "$$x$$",
        "%s",
        "%(a)s",
        ";COMMIT;",
        "\u2028",
    ],
)
async def test_a_hostile_tenant_is_a_tenant_of_that_name(database_factory, tenant):
    db = await database_factory(roles.MEMORYFS)
    await _one_key_each(db, "acme", tenant)
    for name in ("acme", tenant):
        async with db.tenant(name) as tx:
            assert [row["tenant"] for row in await tx.fetch_all("SELECT * FROM core.data_keys")] == [name]
        async with db.scoped(replace(scope_of("acme"), tenant=name)) as tx:
            tx.defer("UPDATE core.idempotency SET response = %s WHERE tenant = %s", (b"'\\%s", name))
            assert await tx.fetch_value("SELECT core.tenant()") == name


async def test_a_tenant_with_nul_is_not_cut_short(database_factory):
    db = await database_factory(roles.MEMORYFS)
    await _one_key_each(db, "acme")
    with pytest.raises(DatabaseFault):
        async with db.tenant("acme\0x") as tx:
            await tx.fetch_all("SELECT * FROM core.data_keys")


async def test_a_tenant_transaction_has_no_reader(database_factory):
    db = await database_factory(roles.MEMORYFS)
    with pytest.raises(ScopeMissing):
        async with db.tenant("acme") as tx:
            await tx.fetch_value("SELECT core.principals()")


async def test_hostile_principals_arrive_as_they_are(database_factory):
    db = await database_factory(roles.MEMORYFS)
    names = ('a"b', "a\\", "a,b", "{}", "NULL", "中文", "' OR 1=1 --", "%s")
    scope = scope_of("acme", groups=names)
    async with db.scoped(scope) as tx:
        assert tuple(await tx.fetch_value("SELECT core.principals()")) == scope.principals
        assert await tx.fetch_value("SELECT core.tenant()") == "acme"
        assert await tx.fetch_value("SELECT core.user_name()") == "u42"
        assert await tx.fetch_value("SELECT core.clearance()") == 0
    assert array_literal(()) == "{}"


@pytest.mark.parametrize("role", roles.SERVICES)
async def test_the_application_role_owns_nothing_and_bypasses_nothing(database_factory, role):
    db = await database_factory(role)
    async with db.unscoped() as tx:
        row = await tx.fetch_one(
            "SELECT rolsuper, rolbypassrls, rolcreatedb FROM pg_roles WHERE rolname = current_user"
        )
        assert not any(row.values())
        owned = await tx.fetch_value(
            "SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname = current_user"
        )
        assert owned == 0
    with pytest.raises(AccessRefused):
        async with db.unscoped() as tx:
            await tx.execute("CREATE TABLE public.t (a int)")
    with pytest.raises(AccessRefused):
        async with db.unscoped() as tx:
            await tx.execute("SET ROLE memoryos_owner")
