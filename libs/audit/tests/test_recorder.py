"""Rows are kept exactly with what they record, and a read is not answered without its row."""

import asyncio

import pytest
from memoryos_audit import Actor, AuditEvent, Kind, Outcome, ReadRecorder, record
from memoryos_audit.event import UNKNOWN_TENANT, AuditEventInvalid
from memoryos_core.errors import AuditUnavailable
from memoryos_core.principals import is_name
from memoryos_postgres.errors import AccessRefused, ConstraintViolation
from memoryos_testing.postgres import admin_execute
from memoryos_testing.scopes import scope_of

ALL = "SELECT * FROM core.audit ORDER BY seq"


def write_event(tenant="acme", **more):
    actor = Actor.of(scope_of(tenant, "u42", chain=("planner", "buyer")))
    return AuditEvent(kind=Kind.MEMORY_WRITE, actor=actor, service="memoryfs", method="Write", **more)


async def test_a_row_says_who_what_and_how_it_ended(writer):
    event = write_event(
        target_type="item",
        target_ids=["mem_1", "mem_2"],
        outcome=Outcome.ERROR,
        reason="QUOTA",
        duration_us=812,
        trace_id="ab" * 16,
        decision_id="dec_1",
        attributes={"revision": 3, "bundle": "r7"},
    )
    async with writer.tenant("acme") as tx:
        record(tx, event)
    async with writer.tenant("acme") as tx:
        row = await tx.fetch_one(ALL)
    assert row["kind"] == "MEMORY_WRITE"
    assert row["user_name"] == "u42"
    assert row["actor"] == "agent:u42/buyer"
    assert row["chain"] == ["planner", "buyer"]
    assert row["target_ids"] == ["mem_1", "mem_2"]
    assert (row["outcome"], row["reason"], row["duration_us"]) == ("ERROR", "QUOTA", 812)
    assert row["trace_id"] == "ab" * 16
    assert row["attributes"] == {"revision": 3, "bundle": "r7"}


async def test_no_row_without_its_transaction(writer):
    async def fail():
        async with writer.tenant("acme") as tx:
            record(tx, write_event())
            await tx.execute("DELETE FROM core.audit")

    with pytest.raises(AccessRefused):
        await fail()
    async with writer.tenant("acme") as tx:
        assert await tx.fetch_all(ALL) == []


async def test_no_write_without_its_row(writer, database):
    await admin_execute(database, "ALTER TABLE core.audit ADD CHECK (service <> 'memoryfs')")
    key = "INSERT INTO core.data_keys (tenant, key_id, subject_hmac, wrapped, epoch_id) VALUES (%s, %s, 's', 'x', 'e')"

    async def write():
        async with writer.tenant("acme") as tx:
            await tx.execute(key, ("acme", b"x" * 16))
            record(tx, write_event())

    with pytest.raises(ConstraintViolation):
        await write()
    async with writer.tenant("acme") as tx:
        assert await tx.fetch_all("SELECT * FROM core.data_keys") == []


async def test_a_row_for_another_tenant_is_refused(writer):
    with pytest.raises(AccessRefused):
        async with writer.tenant("acme") as tx:
            record(tx, write_event("globex"))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE core.audit SET outcome = 'OK'",
        "DELETE FROM core.audit",
        "TRUNCATE core.audit",
        "INSERT INTO core.audit (tenant, kind, service, outcome, xid) VALUES ('acme', 'X', 's', 'OK', '1')",
        "INSERT INTO core.audit (tenant, kind, service, outcome, create_time) VALUES ('acme', 'X', 's', 'OK', now())",
        "INSERT INTO core.audit_seals SELECT * FROM core.audit_seals",
    ],
)
async def test_the_application_cannot_rewrite_history(writer, statement):
    async with writer.tenant("acme") as tx:
        record(tx, write_event())
    with pytest.raises(AccessRefused):
        async with writer.tenant("acme") as tx:
            await tx.execute(statement)


async def test_reads_share_commits_and_every_one_has_its_row(writer, database):
    recorder = ReadRecorder(writer)
    tenants = ["acme", "globex", "initech"]
    events = [write_event(tenants[n % 3], target_ids=[f"mem_{n}"]) for n in range(120)]
    await asyncio.gather(*(recorder.record(event) for event in events))
    await recorder.close()
    transactions = set()
    for tenant in tenants:
        async with writer.tenant(tenant) as tx:
            rows = await tx.fetch_all(ALL)
        assert {row["tenant"] for row in rows} == {tenant}
        assert len(rows) == 40
        transactions |= {row["xid"] for row in rows}
    assert len(transactions) < 10


async def test_a_cancelled_reader_takes_nobody_elses_row_with_it(writer):
    recorder = ReadRecorder(writer)
    tasks = [asyncio.create_task(recorder.record(write_event(target_ids=[f"mem_{n}"]))) for n in range(10)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1:] == [None] * 9
    await recorder.close()
    async with writer.tenant("acme") as tx:
        assert len(await tx.fetch_all(ALL)) >= 9


async def test_a_read_without_its_row_is_refused(writer, database):
    await admin_execute(database, "ALTER TABLE core.audit ADD CHECK (service <> 'memoryfs')")
    recorder = ReadRecorder(writer)
    with pytest.raises(AuditUnavailable):
        await recorder.record(write_event())
    await admin_execute(database, "ALTER TABLE core.audit DROP CONSTRAINT audit_service_check")
    await recorder.record(write_event())


@pytest.mark.parametrize("text", ["客户 A 确认了 Q3 交付计划", "line\nbreak", "x" * 600, "tab\t", "\u2028", "\ud800"])
def test_content_does_not_pass_for_an_id(text):
    with pytest.raises(AuditEventInvalid):
        write_event(target_ids=[text])
    with pytest.raises(AuditEventInvalid):
        write_event(attributes={"note": text})
    with pytest.raises(AuditEventInvalid):
        write_event(reason=text)


def test_no_token_can_name_the_tenant_of_unknown_callers():
    assert not is_name(UNKNOWN_TENANT)
