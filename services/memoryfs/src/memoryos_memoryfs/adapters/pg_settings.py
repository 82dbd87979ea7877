"""Settings of paths on PostgreSQL: their names sealed, their parts plain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoryos_core.paths import MemoryPath
from memoryos_core.sealing import aad, key_id_of, open_sealed, seal
from memoryos_postgres import queries
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.items import Origin
from memoryos_memoryfs.domain.place_keys import keys_above, path_key, subtree_end
from memoryos_memoryfs.domain.settings import ConfidenceCap, Holding, PathSettings, effective
from memoryos_memoryfs.ports.namespace import Stated

_QUERIES = queries.load("memoryos_memoryfs", "sql/namespace.sql")
_SUBJECT: Final = "/paths"
"""Whose key seals the names of paths: no user can be called so."""


class PgSettings:
    """Settings as one transaction sees them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tx = session.tx
        self._tenant = session.tenant

    async def of(self, path: MemoryPath) -> Holding:
        """See `Settings.of`."""
        return self._holding(await self._tx.fetch_all(_QUERIES["settings_above"], await self._above(path)))

    async def of_alone(self, path: MemoryPath) -> Holding:
        """Give the same in a transaction by itself."""
        return self._holding(await self._tx.fetch_alone(_QUERIES["settings_above"], await self._above(path)))

    def expect(self, holding: Holding) -> None:
        """See `Settings.expect`; it travels with COMMIT, behind what waits for a change that is under way."""
        self._tx.defer(_QUERIES["expect_settings"], {"version": holding.version})

    async def stated(self, path: MemoryPath) -> Stated | None:
        """See `Settings.stated`."""
        params = {"tenant": self._tenant, "key": await self._key(path)}
        rows = await self._tx.fetch_all(_QUERIES["stated_settings"], params, binary=True)
        return next(iter(await self._open(rows)), None)

    async def lock(self) -> None:
        """See `Settings.lock`."""
        await self._tx.execute(_QUERIES["lock_quotas"])

    async def count(self) -> int:
        """See `Settings.count`."""
        return int(await self._tx.fetch_value(_QUERIES["count_settings"], {"tenant": self._tenant}))

    async def keep(self, stated: Stated) -> None:
        """See `Settings.keep`."""
        key, settings = await self._key(stated.path), stated.settings
        data_key = await self._session.shared.keyring.subject_key(self._tx, self._tenant, _SUBJECT)
        named = {"tenant": self._tenant, "key": key}
        limits = {"items_max": settings.items_max or 0, "bytes_max": settings.bytes_max or 0}
        if any(limits.values()):
            await self._tx.execute(_QUERIES["keep_quota"], {**named, **limits, "end": subtree_end(key)})
        else:
            await self._tx.execute(_QUERIES["drop_quota"], named)
        await self._tx.execute(_QUERIES["count_version"], {"tenant": self._tenant})
        await self._tx.execute(
            _QUERIES["keep_settings"],
            {
                **named,
                "sealed_path": seal(data_key, str(stated.path).encode(), _place(self._tenant, key)),
                **_columns(settings),
                "etag": stated.etag,
                "update_time": stated.update_time,
            },
        )

    async def below(self, path: MemoryPath) -> list[Stated]:
        """See `Settings.below`."""
        start = await self._key(path)
        params = {"tenant": self._tenant, "start": start, "end": subtree_end(start)}
        found = await self._open(await self._tx.fetch_all(_QUERIES["settings_below"], params, binary=True))
        return sorted(found, key=lambda stated: str(stated.path))

    async def _key(self, path: MemoryPath) -> bytes:
        return path_key((await self._session.keys()).tokens, path)

    async def _above(self, path: MemoryPath) -> dict[str, Any]:
        return {"tenant": self._tenant, "keys": keys_above(await self._key(path))}

    def _holding(self, rows: Sequence[Row]) -> Holding:
        version = rows[0]["version"]
        return effective([_settings(row) for row in rows], self._session.shared.defaults, version=version)

    async def _open(self, rows: Sequence[Row]) -> list[Stated]:
        ids = {key_id_of(row["sealed_path"]) for row in rows}
        keys = await self._session.shared.keyring.by_ids(self._tx, self._tenant, ids)
        return [
            Stated(
                path=MemoryPath.parse(
                    open_sealed(
                        keys[key_id_of(row["sealed_path"])], row["sealed_path"], _place(self._tenant, row["key"])
                    ).decode()
                ),
                settings=_settings(row),
                etag=row["etag"],
                update_time=row["update_time"],
            )
            for row in rows
            if key_id_of(row["sealed_path"]) in keys
        ]


def _place(tenant: str, key: bytes) -> bytes:
    return aad(tenant, "memoryfs.path_settings.sealed_path", key.hex())


def _columns(settings: PathSettings) -> Mapping[str, Any]:
    caps = settings.confidence_caps
    return {
        "default_readers": None if settings.default_readers is None else list(settings.default_readers),
        "writers": None if settings.writers is None else list(settings.writers),
        "gate": settings.gate,
        "confidence_caps": None if caps is None else json.dumps([[cap.origin, cap.role, cap.max] for cap in caps]),
        "ttl": settings.ttl,
        "retention": settings.retention,
        "hot_window": settings.hot_window,
        "items_max": settings.items_max,
        "bytes_max": settings.bytes_max,
        "keep_max": settings.keep_max,
    }


def _settings(row: Row) -> PathSettings:
    readers, writers, caps = row["default_readers"], row["writers"], row["confidence_caps"]
    return PathSettings(
        default_readers=None if readers is None else tuple(readers),
        writers=None if writers is None else tuple(writers),
        gate=row["gate"],
        confidence_caps=None
        if caps is None
        else tuple(ConfidenceCap(origin=Origin(o) if o else None, role=role, max=most) for o, role, most in caps),
        ttl=row["ttl"],
        retention=row["retention"],
        hot_window=row["hot_window"],
        items_max=row["items_max"],
        bytes_max=row["bytes_max"],
        keep_max=row["keep_max"],
    )
