"""Data keys in core.data_keys: wrapped by the epoch key, cached for seconds, gone with their row.

The cache only ever holds committed keys: a key made in a transaction that is
rolled back must not seal anything afterwards. Until the commit it lives in the
transaction (`tx.local`).
"""

import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from memoryos_core.clock import Clock, SystemClock
from memoryos_core.errors import SealedKeyUnavailable
from memoryos_core.sealing import KEY_BYTES, KEY_ID_BYTES, DataKey, TenantKeys, aad, key_id_of, mac, open_sealed, seal

from memoryos_postgres.secret_files import ensure_secret, read_secret
from memoryos_postgres.transaction import Tx

_ROOT: Final = "root"
CACHED_KEYS_MAX: Final = 20_000  # about 10 MB
CACHE_TTL_S: Final = 10.0
"""How long another process may still hold a destroyed key; the erasure of a person waits for it."""

_BY_SUBJECT = "SELECT key_id, wrapped FROM core.data_keys WHERE tenant = %s AND subject_hmac = %s"
_BY_IDS = "SELECT key_id, wrapped FROM core.data_keys WHERE tenant = %s AND key_id = ANY(%s)"
_DESTROY = "DELETE FROM core.data_keys WHERE tenant = %s AND subject_hmac = %s RETURNING key_id"
_INSERT = (
    "INSERT INTO core.data_keys (tenant, key_id, subject_hmac, wrapped, epoch_id) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (tenant, subject_hmac) DO NOTHING"
)


class EpochKeyInvalid(ValueError):
    """The epoch key file is not one line of 64 hex digits, or others than its owner can read it."""


def create_epoch_key(path: Path) -> None:
    """Make a new epoch key in `path` (mode 0600) unless there is one; complete on disk before it has its name."""
    ensure_secret(path, make=lambda: secrets.token_hex(KEY_BYTES))


def load_epoch_key(path: Path) -> "EpochKeys":
    """The epoch key in `path`; its id follows from the key, so the file holds nothing else."""
    return EpochKeys(path)


def epoch_key_of(text: str) -> DataKey:
    """The epoch key of its 64 hex digits."""
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise EpochKeyInvalid(EpochKeyInvalid.__doc__)
    key = bytes.fromhex(text)
    return DataKey(hashlib.sha256(b"memoryos epoch key" + key).digest()[:KEY_ID_BYTES], key)


class EpochKeys:
    """The epoch key file of a running process. While the epoch turns it has two lines: the new key and the old one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, int] | None = None
        self._keys: list[DataKey] = []
        self.current()

    def current(self) -> DataKey:
        """The key that wraps from now on; a changed file is read again."""
        stat = self._path.stat()
        if self._read != (stat.st_mtime_ns, stat.st_ino):
            try:
                self._keys = [epoch_key_of(line) for line in read_secret(self._path).split("\n")]
                self._read = (stat.st_mtime_ns, stat.st_ino)
            except EpochKeyInvalid:  # the old file, overwritten while it was read; the next look finds the new one
                if not self._keys:
                    raise
        return self._keys[0]

    def find(self, key_id: bytes) -> DataKey:
        """The key that wrapped something; SealedKeyUnavailable once its epoch is over."""
        self.current()
        for key in self._keys:
            if key.key_id == key_id:
                return key
        raise SealedKeyUnavailable


class _OneKey:
    """A single epoch key, in tests and tools."""

    def __init__(self, key: DataKey) -> None:
        self._key = key

    def current(self) -> DataKey:
        return self._key

    def find(self, key_id: bytes) -> DataKey:
        return self._key


class PostgresKeyRing:
    """memoryos_core.sealing.KeyRing on core.data_keys; the transaction must be of the tenant asked for."""

    def __init__(self, epoch_key: DataKey | EpochKeys, clock: Clock | None = None) -> None:
        self._epoch = _OneKey(epoch_key) if isinstance(epoch_key, DataKey) else epoch_key
        self._clock = clock or SystemClock()
        self._keys: OrderedDict[tuple[str, str | bytes], tuple[float, DataKey]] = OrderedDict()
        self._derived: dict[bytes, TenantKeys] = {}

    async def subject_key(self, tx: Tx, tenant: str, subject: str) -> DataKey:
        """The key that seals what concerns `subject`; made on first use, the same for all racing callers."""
        name = mac((await self.tenant_keys(tx, tenant)).subjects, subject)
        return await self._named(tx, tenant, name)

    async def subject_keys(self, tx: Tx, tenant: str, subjects: Iterable[str]) -> dict[str, DataKey]:
        """The keys of several subjects; missing ones are made in one order everywhere, so that writers cannot lock
        each other out."""
        own = (await self.tenant_keys(tx, tenant)).subjects
        names = {mac(own, subject): subject for subject in subjects}
        return {names[name]: await self._named(tx, tenant, name) for name in sorted(names)}

    async def by_id(self, tx: Tx, tenant: str, key_id: bytes) -> DataKey:
        """The key of that id; SealedKeyUnavailable once it is destroyed."""
        found = await self.by_ids(tx, tenant, [key_id])
        if key_id not in found:
            raise SealedKeyUnavailable
        return found[key_id]

    async def by_ids(self, tx: Tx, tenant: str, key_ids: Iterable[bytes]) -> dict[bytes, DataKey]:
        """The keys of those ids in at most one query; destroyed ones are left out."""
        found: dict[bytes, DataKey] = {}
        missing: list[bytes] = []
        for key_id in set(key_ids):
            key = self._cached(tx, tenant, key_id)
            if key is None:
                missing.append(key_id)
            else:
                found[key_id] = key
        if missing:
            for row in await tx.fetch_all(_BY_IDS, (tenant, missing)):
                key = self._unwrap(tenant, row["key_id"], row["wrapped"])
                found[key.key_id] = key
                self._remember(tx, tenant, key.key_id, key)
        return found

    async def tenant_keys(self, tx: Tx, tenant: str) -> TenantKeys:
        """The derived keys of the tenant; its root is made on first use."""
        root = await self._named(tx, tenant, _ROOT)
        keys = self._derived.get(root.key_id)
        if keys is None:
            if len(self._derived) >= CACHED_KEYS_MAX:
                self._derived.clear()
            keys = self._derived[root.key_id] = TenantKeys.of(root)
        return keys

    async def destroy(self, tx: Tx, tenant: str, subject: str) -> bool:
        """Destroy the key of a data subject; tell whether there was one. Needs `Database.upkeep`.

        This process holds it no longer than the commit, others `CACHE_TTL_S`.
        """
        name = mac((await self.tenant_keys(tx, tenant)).subjects, subject)
        row = await tx.fetch_one(_DESTROY, (tenant, name))
        held: list[tuple[str, str | bytes]] = [(tenant, name), *([(tenant, row["key_id"])] if row else [])]

        def evict() -> None:
            for entry in held:
                self._keys.pop(entry, None)

        tx.on_commit(evict)
        return row is not None

    async def _named(self, tx: Tx, tenant: str, name: str) -> DataKey:
        cached = self._cached(tx, tenant, name)
        if cached is not None:
            return cached
        row = await tx.fetch_one(_BY_SUBJECT, (tenant, name))
        if row is None:
            key = DataKey.generate()
            epoch = self._epoch.current()
            wrapped = seal(epoch, key.key, place_of(tenant, key.key_id))
            # A second maker waits here until the first has committed (and then reads its key) or given up.
            await tx.execute(_INSERT, (tenant, key.key_id, name, wrapped, epoch.key_id.hex()))
            row = await tx.fetch_one(_BY_SUBJECT, (tenant, name))
            if row is None:
                raise SealedKeyUnavailable
        key = self._unwrap(tenant, row["key_id"], row["wrapped"])
        self._remember(tx, tenant, name, key)
        self._remember(tx, tenant, key.key_id, key)
        return key

    def _cached(self, tx: Tx, tenant: str, name: str | bytes) -> DataKey | None:
        entry = self._keys.get((tenant, name))
        if entry is not None and entry[0] > self._clock.monotonic():
            self._keys.move_to_end((tenant, name))
            return entry[1]
        fresh: dict[tuple[str, str | bytes], DataKey] = tx.local.get("keyring", {})
        return fresh.get((tenant, name))

    def _remember(self, tx: Tx, tenant: str, name: str | bytes, key: DataKey) -> None:
        tx.local.setdefault("keyring", {})[(tenant, name)] = key
        expires = self._clock.monotonic() + CACHE_TTL_S

        def keep() -> None:
            self._keys[(tenant, name)] = (expires, key)
            self._keys.move_to_end((tenant, name))
            while len(self._keys) > CACHED_KEYS_MAX:
                self._keys.popitem(last=False)

        tx.on_commit(keep)

    def _unwrap(self, tenant: str, key_id: bytes, wrapped: bytes) -> DataKey:
        epoch = self._epoch.find(key_id_of(wrapped))
        return DataKey(key_id, open_sealed(epoch, wrapped, place_of(tenant, key_id)))


def place_of(tenant: str, key_id: bytes) -> bytes:
    return aad(tenant, "core.data_keys.wrapped", key_id.hex())
