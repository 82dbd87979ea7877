"""The same request_id gives the same answer once: across retries, racing callers and failures."""

import asyncio

import pytest
from memoryos_core.errors import RequestIdReused
from memoryos_postgres import roles
from memoryos_postgres.errors import DatabaseFault, UniqueViolation
from memoryos_postgres.idempotency import CLAIMED, Idempotency
from memoryos_testing import scope_of
from memoryos_testing.postgres import admin_execute

RPC = "memoryos.memoryfs.v1.MemoryFS/Write"


@pytest.fixture
async def db(database_factory):
    return await database_factory(roles.MEMORYFS)


@pytest.fixture
def idempotency(key_ring):
    return Idempotency(key_ring)


class Effects:
    """Does the work once per new request and remembers how often."""

    def __init__(self, db, idempotency):
        self.db, self.idempotency, self.done = db, idempotency, 0
        self.working = asyncio.Event()

    async def call(self, request_id="r1", body=b"body", *, scope=None, rpc=RPC, fail=False):
        scope = scope or scope_of()
        async with self.db.scoped(scope) as tx:
            stored = await self.idempotency.begin(tx, scope, rpc, request_id, body)
            if stored is not None:
                return stored
            self.done += 1
            self.working.set()
            answer = f"answer {self.done}".encode()
            await tx.execute("SELECT pg_sleep(0.05)")
            if fail:
                await tx.execute("SELECT 1 / 0")
            await self.idempotency.finish(tx, scope, rpc, request_id, answer)
            return answer


@pytest.fixture
def effects(db, idempotency):
    return Effects(db, idempotency)


async def test_a_retry_gets_the_first_answer(effects):
    assert await effects.call() == b"answer 1"
    assert await effects.call() == b"answer 1"
    assert effects.done == 1


async def test_another_body_is_refused(effects):
    await effects.call()
    with pytest.raises(RequestIdReused):
        await effects.call(body=b"other")


async def test_racing_callers_get_one_effect_and_one_answer(effects):
    assert set(await asyncio.gather(*(effects.call() for _ in range(4)))) == {b"answer 1"}
    assert effects.done == 1


async def test_after_a_failure_the_request_can_be_done(effects):
    with pytest.raises(DatabaseFault):
        await effects.call(fail=True)
    assert await effects.call() == b"answer 2"


async def test_a_waiting_caller_takes_over_when_the_first_fails(effects):
    first = asyncio.create_task(effects.call(fail=True))
    await effects.working.wait()  # the first holds the row from here on
    second = asyncio.create_task(effects.call())
    with pytest.raises(DatabaseFault):
        await first
    assert await second == b"answer 2"


@pytest.mark.parametrize(
    "other",
    [
        {"scope": scope_of(user="u43")},
        {"scope": scope_of(tenant="globex")},
        {"scope": scope_of(chain=("agent",))},
        {"rpc": "memoryos.memoryfs.v1.MemoryFS/Forget"},
        {"request_id": "R1"},
        {"request_id": "r1 "},
    ],
)
async def test_another_caller_or_call_is_another_request(effects, other):
    await effects.call()
    assert await effects.call(**other) == b"answer 2"


async def test_the_answer_is_sealed_and_bound_to_its_row(effects, database):
    await effects.call()
    await effects.call("r2")
    async with effects.db.tenant("acme") as tx:
        assert b"answer" not in await tx.fetch_value("SELECT response FROM core.idempotency LIMIT 1")
    await admin_execute(
        database,
        "UPDATE core.idempotency SET response = (SELECT response FROM core.idempotency WHERE request_id = 'r2')",
    )
    with pytest.raises(Exception, match="changed or moved"):
        await effects.call()


async def test_a_claim_is_kept_once_and_replayed(db, idempotency):
    scope = scope_of()

    async def claim(body=b"body", answer=b"first"):
        async with db.scoped(scope) as tx:
            await idempotency.claim(tx, scope, RPC, "r1", body, answer)

    await claim()
    for _ in range(2):
        with pytest.raises(UniqueViolation) as second:
            await claim(answer=b"second")
        assert second.value.constraint == CLAIMED
    async with db.scoped(scope) as tx:
        assert await idempotency.begin(tx, scope, RPC, "r1", b"body") == b"first"
    with pytest.raises(RequestIdReused):
        async with db.scoped(scope) as tx:
            await idempotency.begin(tx, scope, RPC, "r1", b"other")


async def test_of_racing_claims_one_is_kept(db, idempotency):
    scope = scope_of()

    async def claim(number):
        async with db.scoped(scope) as tx:
            await idempotency.claim(tx, scope, RPC, "r1", b"body", str(number).encode())

    results = await asyncio.gather(*(claim(number) for number in range(4)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NoneType"] + ["UniqueViolation"] * 3


async def test_old_rows_are_swept(effects, database, monkeypatch):
    await effects.call("old")
    await effects.call("young")
    await admin_execute(
        database, "UPDATE core.idempotency SET create_time = now() - interval '8 days' WHERE request_id = 'old'"
    )
    monkeypatch.setattr("memoryos_postgres.idempotency._SWEEP_EVERY", 1)
    await effects.call("new")
    async with effects.db.tenant("acme") as tx:
        rows = await tx.fetch_all("SELECT request_id FROM core.idempotency ORDER BY 1")
    assert [row["request_id"] for row in rows] == ["new", "young"]
