"""Data keys: one per tenant and subject, never one that was not committed, gone with their row."""

import asyncio

import pytest
from memoryos_core.clock import ManualClock
from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.sealing import DataKey, open_sealed, seal
from memoryos_postgres import roles
from memoryos_postgres.errors import DatabaseFault
from memoryos_postgres.keyring import CACHE_TTL_S, EpochKeyInvalid, PostgresKeyRing, create_epoch_key, load_epoch_key
from memoryos_postgres.secret_files import SecretFileUnsafe
from memoryos_testing.postgres import admin_execute


@pytest.fixture
async def db(database_factory):
    return await database_factory(roles.MEMORYFS)


async def subject_key(db, ring, subject="u42", tenant="acme"):
    async with db.tenant(tenant) as tx:
        return await ring.subject_key(tx, tenant, subject)


async def test_a_subject_has_one_key_and_subjects_have_different_ones(db, key_ring):
    first = await subject_key(db, key_ring)
    assert await subject_key(db, key_ring) == first
    assert await subject_key(db, key_ring, "u43") != first
    assert await subject_key(db, key_ring, tenant="globex") != first


async def test_racing_processes_get_the_same_key(db):
    epoch = DataKey.generate()
    rings = [PostgresKeyRing(epoch) for _ in range(12)]
    keys = await asyncio.gather(*(subject_key(db, ring) for ring in rings))
    assert len({key.key for key in keys}) == 1


async def test_a_key_of_a_transaction_that_failed_seals_nothing_later(db, key_ring):
    async def fail():
        async with db.tenant("acme") as tx:
            await key_ring.subject_key(tx, "acme", "u42")
            await tx.execute("SELECT 1 / 0")

    with pytest.raises(DatabaseFault):
        await fail()
    key = await subject_key(db, key_ring)
    stranger = PostgresKeyRing(key_ring._epoch.current())
    async with db.tenant("acme") as tx:
        assert await stranger.by_id(tx, "acme", key.key_id) == key


async def test_a_destroyed_key_opens_nothing_after_the_cache_time(db, database):
    clock = ManualClock()
    ring = PostgresKeyRing(DataKey.generate(), clock)
    key = await subject_key(db, ring)
    await admin_execute(database, "DELETE FROM core.data_keys WHERE subject_hmac <> 'root'")
    clock.advance(CACHE_TTL_S)
    async with db.tenant("acme") as tx:
        with pytest.raises(SealedKeyUnavailable):
            await ring.by_id(tx, "acme", key.key_id)
        assert await ring.by_ids(tx, "acme", [key.key_id]) == {}


async def test_a_wrapped_key_moved_to_another_tenant_does_not_open(db, database, key_ring):
    key = await subject_key(db, key_ring)
    await admin_execute(database, "UPDATE core.data_keys SET tenant = 'globex'")
    async with db.tenant("globex") as tx:
        with pytest.raises(SealedKeyUnavailable):
            await PostgresKeyRing(key_ring._epoch.current()).by_id(tx, "globex", key.key_id)


async def test_another_epoch_key_opens_nothing(db, key_ring):
    key = await subject_key(db, key_ring)
    async with db.tenant("acme") as tx:
        with pytest.raises(SealedKeyUnavailable):
            await PostgresKeyRing(DataKey.generate()).by_id(tx, "acme", key.key_id)


async def test_a_tenant_does_not_reach_anothers_key_by_id(db, key_ring):
    key = await subject_key(db, key_ring)
    async with db.tenant("globex") as tx:
        with pytest.raises(SealedKeyUnavailable):
            await key_ring.by_id(tx, "globex", key.key_id)


async def test_many_keys_in_one_go_and_derived_keys_stay(db, key_ring):
    names = [f"u{n}" for n in range(20)]
    async with db.tenant("acme") as tx:
        keys = await key_ring.subject_keys(tx, "acme", names)
        derived = await key_ring.tenant_keys(tx, "acme")
    fresh = PostgresKeyRing(key_ring._epoch.current())
    async with db.tenant("acme") as tx:
        found = await fresh.by_ids(tx, "acme", [key.key_id for key in keys.values()])
        assert set(found.values()) == set(keys.values())
        assert await fresh.tenant_keys(tx, "acme") == derived
    assert len({key.key for key in keys.values()}) == 20


async def test_opposite_orders_of_subjects_do_not_lock_each_other_out(db):
    epoch = DataKey.generate()

    async def make(names):
        async with db.tenant("acme") as tx:
            return await PostgresKeyRing(epoch).subject_keys(tx, "acme", names)

    names = [f"u{n}" for n in range(30)]
    first, second = await asyncio.gather(make(names), make(names[::-1]))
    assert first == second


async def test_what_one_seals_the_other_opens(db, key_ring):
    key = await subject_key(db, key_ring)
    sealed = seal(key, "客户 A".encode(), b"place")
    other = await subject_key(db, PostgresKeyRing(key_ring._epoch.current()))
    assert open_sealed(other, sealed, b"place").decode() == "客户 A"


async def test_no_key_and_no_subject_stands_in_clear(db, database, key_ring):
    key = await subject_key(db, key_ring, "canary-subject")
    async with db.tenant("acme") as tx:
        rows = await tx.fetch_all("SELECT * FROM core.data_keys")
    assert not any(key.key in row["wrapped"] for row in rows)
    assert "canary-subject" not in str(rows)


def test_the_epoch_key_file(tmp_path):
    path = tmp_path / "keys" / "epoch.key"
    create_epoch_key(path)
    key = load_epoch_key(path)
    create_epoch_key(path)
    assert load_epoch_key(path).current() == key.current()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(SecretFileUnsafe):
        load_epoch_key(path)
    path.chmod(0o600)
    path.write_text("00" * 31)
    with pytest.raises(EpochKeyInvalid):
        load_epoch_key(path)
