"""The turn of the epoch: every data key is wrapped by a new epoch key, and the old one is destroyed.

Afterwards neither the write-ahead log nor a backup of the database opens what
was erased before the turn: the wrapped keys in them are of an epoch whose key
is gone. Services go on meanwhile: they read a changed key file by themselves.

1. The file gets two lines, the new key and the old one. From here on new data keys are wrapped by the new one.
2. Data keys of other epochs are wrapped anew, batch by batch.
3. When every transaction of before has ended and none is left, the file gets one line: the new key.

A turn that died is finished by the next one: two lines in the file are taken up as they are.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memoryos_core.sealing import KEY_BYTES, DataKey, key_id_of, open_sealed, seal

from memoryos_postgres.database import Database
from memoryos_postgres.keyring import epoch_key_of, place_of
from memoryos_postgres.secret_files import read_secret

BATCH: Final = 500
_LOOK_S: Final = 0.2
_OLD: Final = (
    "SELECT tenant, key_id, wrapped FROM core.data_keys WHERE epoch_id <> %s ORDER BY tenant, key_id LIMIT %s"
    " FOR UPDATE SKIP LOCKED"
)
_WRAP: Final = "UPDATE core.data_keys SET wrapped = %s, epoch_id = %s WHERE tenant = %s AND key_id = %s"
_LEFT: Final = "SELECT count(*) AS rows FROM core.data_keys WHERE epoch_id <> %s"
_XID: Final = "SELECT pg_current_xact_id()::text::int8 AS xid"
_ENDED: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 >= %s AS ended"


@dataclass(frozen=True, slots=True)
class Turned:
    """What a turn did."""

    epoch_id: str
    key_count: int


async def turn_epoch(database: Database, path: Path) -> Turned:
    """Give the new epoch, once its key alone opens every data key. `database` is that of memoryos_owner."""
    texts = read_secret(path).split("\n")
    if len(texts) == 1:
        texts = [secrets.token_hex(KEY_BYTES), texts[0]]
        _replace(path, texts)
    keys = [epoch_key_of(text) for text in texts]
    new, old = keys[0], {key.key_id: key for key in keys[1:]}
    wrapped = 0
    async with database.unscoped() as tx:
        before = await tx.fetch_value(_XID)
    while True:
        done = await _wrap_batch(database, new, old)
        wrapped += done
        if done:
            continue
        async with database.unscoped() as tx:  # a data key that was made before the file changed is committed by then
            ended = await tx.fetch_value(_ENDED, (before,))
            if ended and not await tx.fetch_value(_LEFT, (new.key_id.hex(),)):
                break
        await asyncio.sleep(_LOOK_S)
    _replace(path, texts[:1])
    return Turned(new.key_id.hex(), wrapped)


async def _wrap_batch(database: Database, new: DataKey, old: dict[bytes, DataKey]) -> int:
    async with database.unscoped() as tx:
        rows = await tx.fetch_all(_OLD, (new.key_id.hex(), BATCH))
        for row in rows:
            place = place_of(row["tenant"], row["key_id"])
            key = open_sealed(old[key_id_of(row["wrapped"])], row["wrapped"], place)
            await tx.execute(_WRAP, (seal(new, key, place), new.key_id.hex(), row["tenant"], row["key_id"]))
    return len(rows)


def _replace(path: Path, texts: list[str]) -> None:
    """Write the file whole or not at all; what it held before is overwritten where the file system does that."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write("\n".join(texts) + "\n")
        file.flush()
        os.fsync(file.fileno())
    held = path.open("r+b")
    fresh.replace(path)
    with held:
        held.write(b"\0" * held.seek(0, os.SEEK_END))
        held.flush()
        os.fsync(held.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
