"""Bootstrap can be repeated, and leaves no door open."""

import asyncio

import psycopg
import pytest
from memoryos_postgres import roles
from memoryos_postgres.bootstrap import bootstrap
from memoryos_postgres.secret_files import SecretFileUnsafe, ensure_secret, read_secret


@pytest.fixture
async def fresh(postgres_server):
    """Bootstrap on a server that has the roles already, as every start after the first one does."""
    admin, secrets = postgres_server.server.admin_dsn(), postgres_server.secrets_dir
    await bootstrap(admin, "again", secrets)
    yield postgres_server
    async with await psycopg.AsyncConnection.connect(admin, autocommit=True) as connection:
        await connection.execute("DROP DATABASE again WITH (FORCE)")


async def test_repeated_and_concurrent_bootstraps_change_nothing(fresh):
    before = {role: read_secret(roles.password_file(fresh.secrets_dir, role)) for role in roles.ALL}
    await asyncio.gather(*(bootstrap(fresh.server.admin_dsn(), "again", fresh.secrets_dir) for _ in range(3)))
    assert before == {role: read_secret(roles.password_file(fresh.secrets_dir, role)) for role in roles.ALL}
    assert len(set(before.values())) == len(roles.ALL)
    for role in roles.ALL:
        async with await psycopg.AsyncConnection.connect(fresh.section("again").dsn(role)) as connection:
            row = await (await connection.execute("SELECT current_user, '[1,2]'::vector::text")).fetchone()
        assert row == (role, "[1,2]")


async def test_a_stranger_cannot_connect(fresh):
    admin = fresh.server.admin_dsn("again")
    async with await psycopg.AsyncConnection.connect(admin, autocommit=True) as connection:
        await connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'x'")
    try:
        dsn = psycopg.conninfo.make_conninfo(fresh.section("again").dsn(roles.POLICY), user="stranger", password="x")
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            await psycopg.AsyncConnection.connect(dsn)
    finally:
        async with await psycopg.AsyncConnection.connect(admin, autocommit=True) as connection:
            await connection.execute("DROP ROLE stranger")


async def test_a_wrong_or_missing_password_is_refused(fresh):
    for password in ("wrong", ""):
        dsn = psycopg.conninfo.make_conninfo(fresh.section("again").dsn(roles.POLICY), password=password)
        with pytest.raises(psycopg.OperationalError):
            await psycopg.AsyncConnection.connect(dsn)


async def test_passwords_are_scram_and_in_no_table(fresh):
    async with await psycopg.AsyncConnection.connect(fresh.server.admin_dsn()) as connection:
        rows = await (await connection.execute("SELECT rolname, rolpassword FROM pg_authid")).fetchall()
    found = dict(rows)
    for role in (*roles.ALL, "postgres"):
        assert found[role].startswith("SCRAM-SHA-256$")


def test_secret_files(tmp_path):
    path = tmp_path / "deep" / "a.password"
    first = ensure_secret(path)
    assert ensure_secret(path) == first
    assert len(first) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["a.password"]
    path.chmod(0o640)
    with pytest.raises(SecretFileUnsafe):
        read_secret(path)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    with pytest.raises(SecretFileUnsafe):
        read_secret(empty)
