"""The turn of the epoch: keys open before, during and after, and the old key opens nothing more."""

import asyncio

import pytest
from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.sealing import KEY_BYTES, open_sealed
from memoryos_postgres import epoch, roles
from memoryos_postgres.epoch import turn_epoch
from memoryos_postgres.keyring import PostgresKeyRing, create_epoch_key, epoch_key_of, load_epoch_key, place_of


@pytest.fixture
async def db(database_factory):
    return await database_factory(roles.MEMORYFS)


@pytest.fixture
async def owner(database_factory):
    return await database_factory(roles.OWNER)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "epoch.key"
    create_epoch_key(file)
    return file


async def subject_key(db, ring, subject="u42", tenant="acme"):
    async with db.tenant(tenant) as tx:
        return await ring.subject_key(tx, tenant, subject)


async def rows_of(db, tenant="acme"):
    async with db.tenant(tenant) as tx:
        return await tx.fetch_all("SELECT key_id, wrapped, epoch_id FROM core.data_keys")


async def test_every_key_opens_after_the_turn_and_none_by_the_old_epoch(db, owner, path):
    ring = PostgresKeyRing(load_epoch_key(path))
    old = load_epoch_key(path).current()
    keys = {(t, s): await subject_key(db, ring, s, t) for t in ("acme", "globex") for s in ("u1", "u2")}
    turned = await turn_epoch(owner, path)
    assert turned.key_count == 6  # with both roots
    assert path.read_text().count("\n") == 1
    assert path.stat().st_mode & 0o777 == 0o600
    for process in (PostgresKeyRing(load_epoch_key(path)), PostgresKeyRing(ring._epoch)):  # restarted, and running
        for (tenant, subject), key in keys.items():
            assert await subject_key(db, process, subject, tenant) == key
    for row in await rows_of(db):
        with pytest.raises(SealedKeyUnavailable):
            open_sealed(old, row["wrapped"], place_of("acme", row["key_id"]))
        assert row["epoch_id"] == turned.epoch_id


async def test_keys_made_during_the_turn_are_wrapped_by_the_new_epoch(db, owner, path):
    rings = [PostgresKeyRing(load_epoch_key(path)) for _ in range(3)]
    stop = asyncio.Event()

    async def work(ring, name):
        number = 0
        while not stop.is_set():
            number += 1
            key = await subject_key(db, ring, f"{name}-{number}")
            ring._keys.clear()
            assert await subject_key(db, ring, f"{name}-{number}") == key
        return number

    workers = [asyncio.create_task(work(ring, f"w{n}")) for n, ring in enumerate(rings)]
    for _ in range(3):
        turned = await turn_epoch(owner, path)
    stop.set()
    assert min(await asyncio.gather(*workers)) > 1
    assert {row["epoch_id"] for row in await rows_of(db)} == {turned.epoch_id}


@pytest.mark.parametrize("after_batches", [0, 1])
async def test_a_turn_that_died_is_finished_by_the_next(db, owner, path, monkeypatch, after_batches):
    ring = PostgresKeyRing(load_epoch_key(path))
    keys = [await subject_key(db, ring, f"u{n}") for n in range(4)]
    monkeypatch.setattr(epoch, "BATCH", 2)
    wrap, batches = epoch._wrap_batch, 0

    async def dying(*given):
        nonlocal batches
        if batches == after_batches:
            raise KeyboardInterrupt
        batches += 1
        return await wrap(*given)

    monkeypatch.setattr(epoch, "_wrap_batch", dying)
    with pytest.raises(KeyboardInterrupt):
        await turn_epoch(owner, path)
    half = PostgresKeyRing(load_epoch_key(path))
    assert [await subject_key(db, half, f"u{n}") for n in range(4)] == keys
    two = path.read_text().split()
    assert [len(line) for line in two] == [2 * KEY_BYTES] * 2
    monkeypatch.setattr(epoch, "_wrap_batch", wrap)
    turned = await turn_epoch(owner, path)
    assert turned.epoch_id == epoch_key_of(two[0]).key_id.hex()
    assert [await subject_key(db, PostgresKeyRing(load_epoch_key(path)), f"u{n}") for n in range(4)] == keys


async def test_services_cannot_turn_it_nor_delete_keys(db, path):
    ring = PostgresKeyRing(load_epoch_key(path))
    await subject_key(db, ring)
    async with db.tenant("acme") as tx:
        assert await tx.execute("DELETE FROM core.data_keys") == 0
    async with db.upkeep("acme") as tx:
        await tx.execute("DELETE FROM core.data_keys WHERE subject_hmac = 'root'")
    assert len(await rows_of(db)) == 2
