"""I9: whoever changes the audit afterwards, also as superuser, is found by `verify`."""

import asyncio
import sys
from dataclasses import replace

import psycopg
import pytest
from memoryos_audit import Actor, AuditEvent, Kind, record
from memoryos_audit.blocks import all_blocks, hash_rows, snapshot
from memoryos_audit.chain import NO_HASH
from memoryos_audit.head import Head
from memoryos_audit.seal_key import PublicSealKeys, SealKey, SealKeyInvalid, create_seal_key, public_file
from memoryos_audit.sealer.sealer import ChainBroken, Sealer
from memoryos_audit.verify import verify
from memoryos_postgres import roles
from memoryos_testing.postgres import admin_execute
from memoryos_testing.scopes import scope_of


async def write(db, count=1, tenant="acme"):
    for number in range(count):
        async with db.tenant(tenant) as tx:
            actor = Actor.of(scope_of(tenant))
            record(tx, AuditEvent(kind=Kind.MEMORY_WRITE, actor=actor, service="t", target_ids=[f"mem_{number}"]))


@pytest.fixture
async def sealed(writer, sealer):
    """Three blocks of four rows over two tenants."""
    for _ in range(3):
        await write(writer, 2)
        await write(writer, 2, "globex")
        assert await sealer.seal() is not None


@pytest.fixture
def check(sealer_db, public_keys, head_file):
    async def run():
        return await verify(sealer_db, public_keys, Head.load(head_file))

    return run


async def test_an_untouched_audit_verifies_and_says_how_far(sealed, writer, check):
    await write(writer, 2)
    report = await check()
    assert report.ok, report.failures
    assert (report.blocks, report.sealed_rows, report.unsealed_rows) == (3, 12, 2)
    assert report.head.block == 3


async def test_an_empty_audit_verifies(check, sealer):
    assert await sealer.seal() is None
    assert (await check()).ok


TAMPERED = {
    "edited": "UPDATE core.audit SET outcome = 'DENIED' WHERE seq = 5",
    "edited by a microsecond": "UPDATE core.audit SET create_time = create_time + interval '1 us' WHERE seq = 5",
    "a null filled": "UPDATE core.audit SET reason = 'X' WHERE seq = 5",
    "moved to another tenant": "UPDATE core.audit SET tenant = 'globex' WHERE seq = 5",
    "removed": "DELETE FROM core.audit WHERE seq = 5",
    "first removed": "DELETE FROM core.audit WHERE seq = 1",
    "last removed": "DELETE FROM core.audit WHERE seq = 12",
    "all removed": "DELETE FROM core.audit",
    "added": "INSERT INTO core.audit (tenant, kind, service, outcome, xid)"
    " SELECT 'acme', 'MEMORY_READ', 's', 'OK', xid FROM core.audit WHERE seq = 5",
    "reordered": "UPDATE core.audit a SET target_ids = b.target_ids FROM core.audit b"
    " WHERE (a.seq, b.seq) IN ((5, 6), (6, 5)) AND a.seq <> b.seq",
    "xids swapped": "UPDATE core.audit a SET xid = b.xid FROM core.audit b"
    " WHERE (a.seq, b.seq) IN ((5, 6), (6, 5)) AND a.seq <> b.seq",
    "pushed behind the seal": "UPDATE core.audit SET xid = '999999999' WHERE seq = 5",
    "block edited": "UPDATE core.audit_seals SET row_count = 3 WHERE block = 2",
    "block removed": "DELETE FROM core.audit_seals WHERE block = 2",
    "first block removed": "DELETE FROM core.audit_seals WHERE block = 1",
    "signature of another block": "UPDATE core.audit_seals a SET signature = b.signature FROM core.audit_seals b"
    " WHERE a.block = 2 AND b.block = 1",
    "all blocks removed": "DELETE FROM core.audit_seals",
    "end cut off": "DELETE FROM core.audit WHERE seq > 8; DELETE FROM core.audit_seals WHERE block = 3",
}


@pytest.mark.parametrize("statement", TAMPERED.values(), ids=TAMPERED)
async def test_tampering_is_found(sealed, database, check, statement):
    await admin_execute(database, statement)
    report = await check()
    assert not report.ok


async def test_truncation_is_found_by_the_head_alone(sealed, database, check, sealer_db, public_keys):
    head_of_then = (await check()).head
    await admin_execute(database, TAMPERED["end cut off"])
    assert (await verify(sealer_db, public_keys, head_of_then)).failures == [
        "the end was cut off: block 3 was sealed, the chain ends at 2"
    ]


async def test_a_missing_head_is_a_failure(sealed, sealer_db, public_keys):
    assert not (await verify(sealer_db, public_keys, None)).ok


async def rechain(sealer_db, database, key):
    """What somebody with all rights on the database can do: edit a row and make the whole chain anew."""
    await admin_execute(database, "UPDATE core.audit SET outcome = 'DENIED' WHERE seq = 5")
    previous = NO_HASH
    statements = []
    async with snapshot(sealer_db) as tx:
        blocks = [block async for block in all_blocks(tx)]
        for block in blocks:
            rows = await hash_rows(tx, block.xid_from, block.xid_to)
            fresh = replace(block, rows_hash=rows.digest(), previous_hash=previous, row_count=rows.count).hashed()
            previous = fresh.hash
            signed = key.sign(fresh.hash) if key else block.signature
            statements.append((fresh.rows_hash, fresh.previous_hash, fresh.hash, signed, fresh.number))
    async with await psycopg.AsyncConnection.connect(database.admin_dsn) as admin:
        for values in statements:
            await admin.execute(
                "UPDATE core.audit_seals SET rows_hash = %s, previous_hash = %s, hash = %s, signature = %s"
                " WHERE block = %s",
                values,
            )


async def test_a_chain_made_anew_is_found_by_its_signatures(sealed, database, sealer_db, check):
    await rechain(sealer_db, database, None)
    report = await check()
    assert any("not signed" in failure for failure in report.failures)
    assert not any("hash is another" in failure for failure in report.failures)


async def test_a_chain_signed_by_a_strangers_key_is_found(sealed, database, sealer_db, check, tmp_path):
    create_seal_key(tmp_path / "stranger.pem")
    await rechain(sealer_db, database, SealKey.load(tmp_path / "stranger.pem"))
    assert not (await check()).ok


async def test_rows_of_a_running_transaction_wait_and_are_then_sealed(writer, sealer, check):
    """A row that commits late must not appear behind a seal that has passed it."""
    async with writer.tenant("acme") as slow:
        await slow.execute("SELECT pg_current_xact_id()")
        await write(writer, 3)
        assert await sealer.seal() is None  # all three are younger than the one that runs
        actor = Actor.of(scope_of("acme"))
        record(slow, AuditEvent(kind=Kind.MEMORY_WRITE, actor=actor, service="slow"))
    block = await sealer.seal()
    assert block.row_count == 4
    report = await check()
    assert report.ok
    assert report.unsealed_rows == 0


async def test_of_many_sealers_one_works_and_the_chain_has_no_fork(
    writer, database_factory, seal_key_file, public_keys, head_file, check
):
    sealers = [
        Sealer(await database_factory(roles.SEALER), SealKey.load(seal_key_file), public_keys, head_file)
        for _ in range(3)
    ]
    for _ in range(5):
        await write(writer, 3)
        await asyncio.gather(*(sealer.seal() for sealer in sealers), return_exceptions=True)
    while await sealers[0].seal() is not None:
        pass
    report = await check()
    assert report.ok, report.failures
    assert report.sealed_rows == 15


async def test_the_sealer_does_not_go_on_over_a_cut(sealed, database, writer, sealer):
    await admin_execute(database, TAMPERED["end cut off"])
    await write(writer)
    with pytest.raises(ChainBroken):
        await sealer.seal()


async def test_a_kill_between_block_and_head_is_mended(sealed, writer, sealer, head_file, check):
    before = Head.load(head_file)
    await write(writer)
    await sealer.seal()
    before.save(head_file)  # the state that the kill leaves
    assert (await check()).ok
    await write(writer)
    await sealer.seal()
    assert Head.load(head_file).block == 5
    assert (await check()).ok


async def test_a_kill_before_the_first_head_is_mended_without_new_rows(writer, sealer, head_file, check):
    await write(writer)
    await sealer.seal()
    head_file.unlink()
    assert await sealer.seal() is None
    assert (await check()).ok


async def test_the_sealer_does_not_go_on_over_a_forged_end(sealed, database, writer, sealer, head_file):
    head_file.unlink()
    await admin_execute(database, "UPDATE core.audit_seals SET row_count = 5 WHERE block = 3")
    await write(writer)
    with pytest.raises(ChainBroken):
        await sealer.seal()


async def test_old_seals_verify_after_a_change_of_key(sealed, writer, sealer_db, seal_key_file, head_file):
    seal_key_file.unlink()
    create_seal_key(seal_key_file)
    await write(writer)
    keys = PublicSealKeys.load(public_file(seal_key_file))
    assert await Sealer(sealer_db, SealKey.load(seal_key_file), keys, head_file).seal() is not None
    report = await verify(sealer_db, keys, Head.load(head_file))
    assert report.ok, report.failures


def test_a_seal_key_that_others_read_is_refused(seal_key_file):
    seal_key_file.chmod(0o644)
    with pytest.raises(SealKeyInvalid):
        SealKey.load(seal_key_file)


async def test_the_process_seals_and_ends_on_sigterm(database, writer, tmp_path, check, head_file, seal_key_file):
    config = tmp_path / "config.yaml"
    config.write_text(
        f"postgres: {{port: {database.section.port}, database: {database.section.database},"
        f" secrets_dir: {database.section.secrets_dir}}}\n"
        f"audit: {{seal_key_file: {seal_key_file}, head_file: {head_file}, seal_interval_s: 0.05}}\n"
        f"telemetry: {{span_dir: {tmp_path / 'spans'}}}\n"
    )
    await write(writer, 5)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "memoryos_audit.sealer", env={"MEMORYOS_CONFIG": str(config)}
    )
    try:
        async with asyncio.timeout(30):
            while not head_file.exists():
                assert process.returncode is None
                await asyncio.sleep(0.02)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    report = await check()
    assert report.ok
    assert report.sealed_rows == 5
