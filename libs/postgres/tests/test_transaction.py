"""What a transaction promises: all or nothing, and never a silent nothing."""

import asyncio
import time

import pytest
from memoryos_core.errors import DeadlineExceeded
from memoryos_postgres import Database, copy_binary, roles
from memoryos_postgres.errors import (
    AccessRefused,
    DatabaseFault,
    DatabaseUnavailable,
    ScopeMissing,
    UniqueViolation,
)
from memoryos_postgres.transaction import NotCommitted
from memoryos_testing.postgres import admin_execute

INSERT = "INSERT INTO core.data_keys (tenant, key_id, subject_hmac, wrapped, epoch_id) VALUES (%s, %s, %s, 'x', 'e')"
COUNT = "SELECT count(*) FROM core.data_keys"


def key(number, tenant="acme"):
    return (tenant, bytes([number]) * 16, f"s{number}")


@pytest.fixture
async def db(database_factory):
    return await database_factory(roles.MEMORYFS)


async def count(db):
    async with db.tenant("acme") as tx:
        return await tx.fetch_value(COUNT)


async def test_statements_deferred_come_last_and_in_order(db):
    async with db.tenant("acme") as tx:
        tx.defer("UPDATE core.idempotency SET response = %s WHERE tenant = 'acme'", (b"1",))
        tx.defer("UPDATE core.idempotency SET response = response || %s WHERE tenant = 'acme'", (b"2",))
        await tx.execute(
            "INSERT INTO core.idempotency (tenant, principal, rpc, request_id, body_hmac)"
            " VALUES ('acme', 'p', 'r', 'i', 'h')"
        )
    async with db.tenant("acme") as tx:
        assert await tx.fetch_value("SELECT response FROM core.idempotency") == b"12"


async def test_what_is_deferred_to_the_last_comes_last_and_once(db):
    append = "UPDATE core.idempotency SET response = response || %s WHERE tenant = 'acme'"
    insert = (
        "INSERT INTO core.idempotency (tenant, principal, rpc, request_id, body_hmac, response)"
        " VALUES ('acme', 'p', 'r', 'i', 'h', '')"
    )
    for committed_by_read in (False, True):
        async with db.tenant("acme") as tx:
            await tx.execute("DELETE FROM core.idempotency")
            tx.defer_last(append, (b"x",))
            tx.defer(insert)
            tx.defer_last(append, (b"z",))
            tx.defer("UPDATE core.idempotency SET response = response || %s", (b"1",))
            if committed_by_read:
                await tx.fetch_last("SELECT 1")
        async with db.tenant("acme") as tx:
            assert await tx.fetch_value("SELECT response FROM core.idempotency") == (b"1z")


async def test_what_is_deferred_to_the_last_alone_is_a_transaction(db):
    async with db.tenant("acme") as tx:
        tx.defer_last(INSERT, key(1))
    assert await count(db) == 1


@pytest.mark.parametrize("binary", [False, True])
async def test_bytes_arrive_as_they_are_alone_and_in_a_list(db, binary):
    values = [bytes(range(256)), b"\\'\\\\''\0", b""]
    async with db.tenant("acme") as tx:
        for _ in range(2):  # prepared, and prepared before
            row = await tx.fetch_one("SELECT %s::bytea AS one, %s::bytea[] AS all", (values[0], values), binary=binary)
            assert row == {"one": values[0], "all": values}


async def test_deferred_statements_alone_are_a_transaction(db):
    async with db.tenant("acme") as tx:
        tx.defer(INSERT, key(1))
        tx.defer(INSERT, key(2))
    assert await count(db) == 2


async def test_a_read_alone_sees_its_scope_and_leaves_nothing_open(db):
    async with db.tenant("acme") as tx:
        await tx.execute(INSERT, key(1))
    for tenant, expected in (("acme", ["s1"]), ("evil", [])):
        async with db.tenant(tenant) as tx:
            rows = await tx.fetch_alone("SELECT subject_hmac FROM core.data_keys WHERE subject_hmac = %s", ("s1",))
            assert [row["subject_hmac"] for row in rows] == expected
            # What follows is a transaction of its own, in the same scope.
            await tx.execute(INSERT, key(2, tenant))
    assert await count(db) == 2
    with pytest.raises(DatabaseFault):
        async with db.tenant("acme") as tx:
            await tx.fetch_alone("SELECT 1 / 0")
    assert await count(db) == 2


async def test_a_read_alone_inside_a_transaction_is_part_of_it(db):
    async with db.tenant("acme") as tx:
        await tx.execute(INSERT, key(1))
        assert len(await tx.fetch_alone("SELECT 1 FROM core.data_keys")) == 1
        tx.defer(INSERT, key(2))
    assert await count(db) == 2


async def test_the_last_read_ends_the_transaction_with_what_was_deferred(db):
    kept = []
    async with db.tenant("acme") as tx:
        tx.on_commit(lambda: kept.append(1))
        await tx.execute(INSERT, key(1))
        tx.defer(INSERT, key(2))
        rows = await tx.fetch_last("SELECT subject_hmac FROM core.data_keys WHERE tenant = %s", ("acme",))
        assert [row["subject_hmac"] for row in rows] == ["s1"]
        assert kept == [1]
        assert await count(db) == 2
        # What follows is another transaction, in the same scope.
        assert await tx.fetch_value(COUNT) == 2
        await tx.execute(INSERT, key(3))
        assert await count(db) == 2
    assert (kept, await count(db)) == ([1], 3)


async def test_the_last_read_of_a_failed_transaction_gives_nothing(db):
    async def divide():
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            await tx.fetch_last("SELECT 1 / 0")

    with pytest.raises(DatabaseFault):
        await divide()
    assert await count(db) == 0


async def test_a_scope_ends_with_its_read(db):
    for _ in range(8):  # every connection of the pool
        async with db.tenant("acme") as tx:
            await tx.fetch_alone(COUNT)
        async with db.tenant("acme") as tx:
            await tx.fetch_last(COUNT)
        with pytest.raises(ScopeMissing):
            async with db.unscoped() as tx:
                await tx.fetch_value(COUNT)


async def test_what_is_set_for_the_next_statement_holds_until_it_is_taken_back(db):
    shown = "SELECT current_setting('plan_cache_mode')"
    async with db.tenant("acme") as tx:
        own = await tx.fetch_value(shown)
        tx.set_next({"plan_cache_mode": "force_custom_plan"})
        assert await tx.fetch_value(shown) == "force_custom_plan"
        assert await tx.fetch_value(shown) == "force_custom_plan"
        tx.set_next({"plan_cache_mode": None})
        assert (await tx.fetch_last(shown))[0]["current_setting"] == own
        tx.set_next({"plan_cache_mode": "force_generic_plan"})
        assert await tx.fetch_value(shown) == "force_generic_plan"
    async with db.tenant("acme") as tx:
        assert await tx.fetch_value(shown) == own


async def test_a_statement_of_a_caller_who_went_away_is_ended(db):
    async def wait_long():
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            await tx.fetch_value("SELECT pg_sleep(60)")

    for _ in range(8):  # more often than the pool has connections
        waiting = asyncio.create_task(wait_long())
        await asyncio.sleep(0.1)
        began = time.monotonic()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert time.monotonic() - began < 5
    assert await count(db) == 0


async def test_a_caller_may_go_away_at_any_moment(db):
    async def ask():
        async with db.tenant("acme") as tx:
            await tx.fetch_value("SELECT 1")

    async with asyncio.timeout(60):
        for n in range(300):
            asking = asyncio.create_task(ask())
            for _ in range(n % 30):
                await asyncio.sleep(0)
            await asyncio.sleep((n // 30) * 0.0002)
            asking.cancel()
            await asyncio.wait([asking])
        await asyncio.gather(*(ask() for _ in range(20)))


async def test_an_answer_of_many_pieces_arrives_whole(db):
    async with db.tenant("acme") as tx:
        row = await tx.fetch_one("SELECT repeat('x', %s) AS text", (5_000_000,), binary=True)
    assert row == {"text": "x" * 5_000_000}


async def test_a_failing_deferred_statement_undoes_everything(db):
    async def insert_twice():
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            tx.defer(INSERT, key(1))

    with pytest.raises(UniqueViolation) as caught:
        await insert_twice()
    assert caught.value.constraint == "data_keys_pkey"
    assert await count(db) == 0


async def test_a_swallowed_error_does_not_end_as_a_commit(db):
    """PostgreSQL answers ROLLBACK, without an error, to the COMMIT of a failed transaction."""

    async def swallow():
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            with pytest.raises(UniqueViolation):
                await tx.execute(INSERT, key(1))

    with pytest.raises(NotCommitted):
        await swallow()
    assert await count(db) == 0


async def test_on_commit_runs_after_a_commit_only(db):
    called = []

    async def fail():
        async with db.tenant("acme") as tx:
            tx.on_commit(lambda: called.append("failed"))
            await tx.execute("SELECT 1 / 0")

    async with db.tenant("acme") as tx:
        tx.on_commit(lambda: called.append("committed"))
        await tx.execute(INSERT, key(1))
        assert called == []
    with pytest.raises(DatabaseFault):
        await fail()
    assert called == ["committed"]


async def test_a_savepoint_fails_alone(db):
    async with db.tenant("acme") as tx:
        await tx.execute(INSERT, key(1))
        with pytest.raises(UniqueViolation):
            async with tx.savepoint():
                await tx.execute(INSERT, key(1))
        await tx.execute(INSERT, key(2))
    assert await count(db) == 2


async def test_many_rows_and_copy(db, database):
    async with db.tenant("acme") as tx:
        assert await tx.executemany(INSERT, [key(n) for n in range(50)]) == 50
    await admin_execute(database, "CREATE TABLE public.plain (n int); GRANT ALL ON public.plain TO PUBLIC")
    async with db.unscoped() as tx:
        rows = copy_binary.whole(([copy_binary.int4(n)] for n in range(100)), fields=1)
        assert await tx.copy_whole("COPY public.plain FROM STDIN (FORMAT binary)", rows) == 100
        assert await tx.fetch_value("SELECT count(*) FROM public.plain") == 100
    assert await count(db) == 50


@pytest.mark.parametrize("table", ["plain", "absent"])
async def test_a_copy_that_fails_undoes_its_transaction(db, database, table):
    await admin_execute(database, "CREATE TABLE public.plain (n int); GRANT ALL ON public.plain TO PUBLIC")

    async def copy() -> None:
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            too_wide = copy_binary.whole([[copy_binary.int8(1)]], fields=1)
            await tx.copy_whole(f"COPY public.{table} FROM STDIN (FORMAT binary)", too_wide)

    with pytest.raises(DatabaseFault):
        await copy()
    assert await count(db) == 0


@pytest.mark.parametrize("step", ["SELECT pg_sleep(%s)", None])
async def test_a_cancelled_transaction_leaves_nothing_and_the_pool_whole(database, step):
    section = database.section.model_copy(update={"pool_size": 1})
    async with Database(section, roles.MEMORYFS) as db:
        entered = asyncio.Event()

        async def work():
            async with db.tenant("acme") as tx:
                await tx.execute(INSERT, key(1))
                if step:
                    await tx.execute(step, (0,))  # prepared from here on
                entered.set()
                await (tx.execute(step, (60,)) if step else asyncio.Event().wait())

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            assert await count(db) == 0


async def test_a_client_that_is_gone_keeps_no_locks(database):
    """The driver gives up on a query that does not end; its transaction must end on the server too."""
    section = database.section.model_copy(update={"pool_size": 1})

    async def insert(db):
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))

    async def vanish(db):
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            connection = await tx.connection()
            connection.pgconn.send_query(b"SELECT pg_sleep(60)")
            connection.pgconn.flush()
            connection.pgconn.finish()
            raise asyncio.CancelledError

    async with Database(section, roles.MEMORYFS) as first, Database(section, roles.MEMORYFS) as second:
        with pytest.raises(asyncio.CancelledError):
            await vanish(first)
        async with asyncio.timeout(20):
            await insert(second)


async def test_cancelled_in_the_first_round_trip(database):
    section = database.section.model_copy(update={"pool_size": 1})
    async with Database(section, roles.MEMORYFS) as db:

        async def work():
            async with db.tenant("acme") as tx:
                await tx.execute("SELECT pg_sleep(60)")

        for _ in range(3):
            task = asyncio.create_task(work())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(5):
            assert await count(db) == 0


async def test_a_full_pool_is_unavailable_not_a_hang(database):
    section = database.section.model_copy(update={"pool_size": 1, "acquire_timeout_s": 0.1})
    async with Database(section, roles.MEMORYFS) as db, db.tenant("acme") as tx:
        await tx.execute("SELECT 1")
        with pytest.raises(DatabaseUnavailable):
            await count(db)


async def test_a_statement_over_time_is_deadline_exceeded(database):
    section = database.section.model_copy(update={"statement_timeout_s": 0.05})
    async with Database(section, roles.MEMORYFS) as db:
        with pytest.raises(DeadlineExceeded):
            async with db.unscoped() as tx:
                await tx.execute("SELECT pg_sleep(10)")


async def test_a_transaction_that_falls_asleep_gives_up_its_locks(database):
    section = database.section.model_copy(update={"idle_in_transaction_timeout_s": 0.05})

    async def sleep_inside(db):
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            await asyncio.to_thread(time.sleep, 0.3)
            await tx.execute("SELECT 1")

    async with Database(section, roles.MEMORYFS) as db:
        with pytest.raises(DatabaseUnavailable):
            await sleep_inside(db)
        assert await count(db) == 0


async def test_connections_that_the_server_closed_are_replaced_unseen(db, database):
    assert await count(db) == 0
    await admin_execute(
        database,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND usename = 'memoryos_memoryfs'",
    )
    for _ in range(8):
        assert await count(db) == 0


async def test_a_broken_connection_is_unavailable(db, database):
    async def lose_it():
        async with db.tenant("acme") as tx:
            await tx.execute(INSERT, key(1))
            pid = await tx.fetch_value("SELECT pg_backend_pid()")
            await admin_execute(database, f"SELECT pg_terminate_backend({pid}, 5000)")
            await tx.execute("SELECT 1")

    with pytest.raises(DatabaseUnavailable):
        await lose_it()
    assert await count(db) == 0


async def test_no_server_is_unavailable(database):
    section = database.section.model_copy(update={"port": 1, "acquire_timeout_s": 0.2})
    db = Database(section, roles.MEMORYFS)
    try:
        with pytest.raises(DatabaseUnavailable):
            await db.open()
    finally:
        await db.close()


async def test_two_tenants_at_once_never_mix(db):
    async def write(number):
        tenant = f"t{number % 2}"
        async with db.tenant(tenant) as tx:
            await tx.execute(INSERT, key(number, tenant))
            await asyncio.sleep(0)
            assert {r["tenant"] for r in await tx.fetch_all("SELECT tenant FROM core.data_keys")} == {tenant}

    await asyncio.gather(*(write(number) for number in range(50)))
    for tenant in ("t0", "t1"):
        async with db.tenant(tenant) as tx:
            assert await tx.fetch_value(COUNT) == 25


async def test_errors_carry_nothing_of_the_driver(db):
    with pytest.raises(UniqueViolation) as caught:
        async with db.tenant("acme") as tx:
            await tx.executemany(INSERT, [("acme", b"canary-canary-ab", "canary")] * 2)
    assert "canary" not in str(caught.value)
    assert "data_keys" not in str(caught.value)
    with pytest.raises(AccessRefused) as refused:
        async with db.tenant("acme") as tx:
            await tx.execute("SELECT * FROM core.migrations")
    assert "migrations" not in str(refused.value)


async def test_a_connection_that_rolled_back_goes_on_whatever_ran_on_it_before(database):
    """Statements that the driver runs by itself and ours share a connection, and so what is prepared on it."""
    section = database.section.model_copy(update={"pool_size": 1})
    async with Database(section, roles.MEMORYFS) as one:
        for number in range(3):
            async with one.tenant("acme") as tx:
                await tx.executemany(INSERT, [key(10 * number + n) for n in range(3)])
                with pytest.raises(UniqueViolation):
                    async with tx.savepoint():
                        await tx.executemany(INSERT, [key(10 * number)] * 2)
                await tx.execute(INSERT, key(10 * number + 5))
            with pytest.raises(UniqueViolation):
                async with one.tenant("acme") as tx:
                    await tx.execute(INSERT, key(10 * number))
            assert await count(one) == 4 * (number + 1)
