"""Migrations go forward, once, whole files at a time."""

import asyncio

import pytest
from memoryos_postgres import Database, roles
from memoryos_postgres.errors import AccessRefused, DatabaseFault
from memoryos_postgres.migrate import MigrationFolder, MigrationRefused, installed_folders, migrate


@pytest.fixture
async def empty(postgres_server):
    clone = await postgres_server.empty()
    yield clone
    await postgres_server.drop(clone)


@pytest.fixture
def folder(tmp_path):
    def make(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.sql").write_text(text)
        return [MigrationFolder("memoryfs", tmp_path)]

    return make


async def tables(clone):
    async with Database(clone.section, roles.OWNER) as db, db.unscoped() as tx:
        rows = await tx.fetch_all(
            "SELECT relname FROM pg_class WHERE relname LIKE 't\\_%' AND relkind = 'r' ORDER BY 1"
        )
        return [row["relname"] for row in rows]


async def test_files_run_in_order_and_once(empty, folder):
    dsn = empty.dsn(roles.OWNER)
    folders = folder(
        **{
            "0002_pre_second": "ALTER TABLE memoryfs.t_one ADD b int;",
            "0001_pre_first": "CREATE TABLE memoryfs.t_one (a int);",
        }
    )
    assert await migrate(dsn, folders) == ["memoryfs/0001_pre_first.sql", "memoryfs/0002_pre_second.sql"]
    assert await migrate(dsn, folders) == []
    assert await tables(empty) == ["t_one"]


async def test_concurrent_migrators_do_it_once(empty):
    dsn = empty.dsn(roles.OWNER)
    done = await asyncio.gather(*(migrate(dsn, installed_folders(["core"])) for _ in range(4)))
    names = [name for files in done for name in files]
    assert len(names) == len(set(names)) >= 3
    assert sorted(bool(files) for files in done) == [False, False, False, True]


async def test_a_failing_file_leaves_nothing_of_itself(empty, folder):
    dsn = empty.dsn(roles.OWNER)
    folders = folder(
        **{
            "0001_pre_first": "CREATE TABLE memoryfs.t_one (a int);",
            "0002_pre_second": "CREATE TABLE memoryfs.t_two (a int); SELECT 1 / 0;",
        }
    )
    with pytest.raises(DatabaseFault):
        await migrate(dsn, folders)
    assert await tables(empty) == ["t_one"]
    folder(**{"0002_pre_second": "CREATE TABLE memoryfs.t_two (a int);"})
    assert await migrate(dsn, folders) == ["memoryfs/0002_pre_second.sql"]


async def test_a_changed_file_is_refused(empty, folder):
    dsn = empty.dsn(roles.OWNER)
    folders = folder(**{"0001_pre_first": "CREATE TABLE memoryfs.t_one (a int);"})
    await migrate(dsn, folders)
    folder(**{"0001_pre_first": "CREATE TABLE memoryfs.t_one (a bigint);"})
    with pytest.raises(MigrationRefused, match="changed"):
        await migrate(dsn, folders)


async def test_what_a_file_includes_is_part_of_it(empty, folder, tmp_path, monkeypatch):
    package = tmp_path / "lib" / "somequeue"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "schema.sql").write_text("CREATE TABLE memoryfs.t_one (a int);")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    dsn = empty.dsn(roles.OWNER)
    folders = folder(**{"0001_pre_queue": "-- include: somequeue/schema.sql\nCREATE TABLE memoryfs.t_two (a int);"})
    await migrate(dsn, folders)
    assert await tables(empty) == ["t_one", "t_two"]
    (package / "schema.sql").write_text("CREATE TABLE memoryfs.t_one (a bigint);")
    with pytest.raises(MigrationRefused, match="changed"):
        await migrate(dsn, folders)


async def test_a_release_older_than_the_database_is_refused(empty, folder, tmp_path):
    dsn = empty.dsn(roles.OWNER)
    folders = folder(**{"0001_pre_first": "SELECT 1;", "0002_pre_second": "SELECT 2;"})
    await migrate(dsn, folders)
    (tmp_path / "0002_pre_second.sql").unlink()
    with pytest.raises(MigrationRefused, match="never go back"):
        await migrate(dsn, folders)


async def test_a_file_before_applied_ones_is_refused(empty, folder):
    dsn = empty.dsn(roles.OWNER)
    await migrate(dsn, folder(**{"0002_pre_second": "SELECT 2;"}))
    with pytest.raises(MigrationRefused, match="comes before"):
        await migrate(dsn, folder(**{"0001_pre_first": "SELECT 1;"}))


@pytest.mark.parametrize("name", ["1_pre_x", "0001_x", "0001_mid_x", "0001_pre_X", "0001_pre_x y"])
async def test_a_misnamed_file_is_refused(empty, folder, name):
    with pytest.raises(MigrationRefused, match="not named"):
        await migrate(empty.dsn(roles.OWNER), folder(**{name: "SELECT 1;"}))


async def test_two_files_of_one_number_are_refused(empty, folder):
    with pytest.raises(MigrationRefused, match="same number"):
        await migrate(empty.dsn(roles.OWNER), folder(**{"0001_pre_a": "SELECT 1;", "0001_post_b": "SELECT 1;"}))


async def test_pre_and_post_around_a_roll_out(empty, folder):
    dsn = empty.dsn(roles.OWNER)
    folders = folder(**{"0001_pre_a": "SELECT 1;", "0002_pre_b": "SELECT 1;", "0003_post_c": "SELECT 1;"})
    assert len(await migrate(dsn, folders, phase="pre")) == 2
    folder(**{"0004_pre_d": "SELECT 1;"})
    with pytest.raises(MigrationRefused, match="must be applied first"):
        await migrate(dsn, folders, phase="pre")
    assert await migrate(dsn, folders, phase="post") == ["memoryfs/0003_post_c.sql"]
    assert await migrate(dsn, folders, phase="pre") == ["memoryfs/0004_pre_d.sql"]


async def test_an_application_role_cannot_migrate(empty, folder):
    with pytest.raises(AccessRefused):
        await migrate(empty.dsn(roles.MEMORYFS), folder(**{"0001_pre_a": "SELECT 1;"}))
