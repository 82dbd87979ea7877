"""Snapshots on PostgreSQL: one row each, whatever the size of the subtree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from memoryos_core.paths import MemoryPath
from memoryos_core.sealing import aad, key_id_of, open_sealed, seal
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.adapters.pg_history import QUERIES, places_below
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.place_keys import path_key, subtree_end
from memoryos_memoryfs.domain.points import seen_by_others
from memoryos_memoryfs.ports.history import Snapshot

KEPT_MAX: Final = 5
"""Snapshots of one maker, path and channel."""
_AFTER_ALL: Final = (datetime(9999, 12, 31, tzinfo=UTC), "~")


class PgSnapshots:
    """The named points of one transaction's caller."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tx = session.tx
        self._tenant = session.tenant

    async def take(self, snapshot_id: str, path: MemoryPath, title: str, channel: str) -> tuple[Snapshot, list[str]]:
        """See `Snapshots.take`."""
        scope = self._session.scope
        whole = access.WIDE_ROLE in scope.roles
        owner = access.owner_of(scope)
        key = path_key((await self._session.keys()).tokens, path)
        named = {"tenant": self._tenant, "path_key": key, "channel": channel, "owner": owner}
        # One at a time for each maker, path and channel: of two at once none would see the other's row.
        turn = f"{self._tenant}/{owner}/{key.hex()}/{channel}"
        await self._tx.execute(QUERIES["lock_snapshots"], {"name": turn})
        row = await self._tx.fetch_one(
            QUERIES["count_by_place"],
            {
                "tenant": self._tenant,
                "path_ids": await places_below(self._session, path),
                "owner": None if whole else await self._number(owner),
            },
        )
        own_xid = await self._tx.fetch_value(QUERIES["own_xid"])
        assert row is not None
        snapshot = Snapshot(
            id=snapshot_id,
            path=path,
            title=title,
            channel=channel,
            point=seen_by_others(row["point"], int(own_xid)),
            create_time=row["now"],
            actor=scope.actor,
            owner=owner,
            whole=whole,
            counts=_counts(row["counts"]),
        )
        await self._tx.execute(
            QUERIES["insert_snapshot"],
            {
                **named,
                "id": snapshot_id,
                "sealed": await self._sealed(snapshot),
                "point": snapshot.point,
                "create_time": snapshot.create_time,
                "actor": snapshot.actor,
                "whole": whole,
                "item_counts": json.dumps(row["counts"]),
            },
        )
        dropped = await self._tx.fetch_all(QUERIES["drop_old_snapshots"], {**named, "kept": KEPT_MAX})
        return snapshot, sorted(row["id"] for row in dropped)

    async def find(self, snapshot_id: str) -> Snapshot | None:
        """See `Snapshots.find`."""
        params = {"tenant": self._tenant, "id": snapshot_id}
        rows = await self._tx.fetch_all(QUERIES["find_snapshot"], params)
        return next(iter(await self._open(rows)), None)

    async def page(
        self, path: MemoryPath, channel: str, *, before: tuple[datetime, str] | None, limit: int
    ) -> list[Snapshot]:
        """See `Snapshots.page`."""
        start = path_key((await self._session.keys()).tokens, path)
        time, snapshot_id = before or _AFTER_ALL
        rows = await self._tx.fetch_all(
            QUERIES["list_snapshots"],
            {
                "tenant": self._tenant,
                "start": start,
                "end": subtree_end(start),
                "ancestors": [start[:size] for size in range(8, len(start), 8)],
                "channel": channel,
                "before_time": time,
                "before_id": snapshot_id,
                "limit": limit,
            },
        )
        return await self._open(rows)

    async def erased_count(self, snapshot: Snapshot, path: MemoryPath) -> int:
        """See `Snapshots.erased_count`."""
        places = await places_below(self._session, path)
        survivors = await self._tx.fetch_value(
            QUERIES["count_survivors"],
            {
                "tenant": self._tenant,
                "path_ids": places,
                "point": snapshot.point,
                "owner": None if snapshot.whole else await self._number(snapshot.owner),
            },
        )
        return max(sum(snapshot.counts.get(place, 0) for place in places) - int(survivors), 0)

    async def _number(self, principal: str) -> int:
        """Give the number of a principal; -1 for one that owns nothing and is in no ACL."""
        numbers = await self._session.shared.names.numbers(self._tx, self._tenant, [principal])
        return numbers.get(principal, -1)

    async def _sealed(self, snapshot: Snapshot) -> bytes:
        keyring = self._session.shared.keyring
        key = await keyring.subject_key(self._tx, self._tenant, self._session.scope.user)
        text = json.dumps([str(snapshot.path), snapshot.title], ensure_ascii=False, separators=(",", ":"))
        return seal(key, text.encode(), _place(self._tenant, snapshot.id))

    async def _open(self, rows: Sequence[Row]) -> list[Snapshot]:
        """Give the snapshots of rows; one whose key is destroyed is not there any more."""
        keyring = self._session.shared.keyring
        keys = await keyring.by_ids(self._tx, self._tenant, {key_id_of(row["sealed"]) for row in rows})
        found = []
        for row in rows:
            key = keys.get(key_id_of(row["sealed"]))
            if key is not None:
                path, title = json.loads(open_sealed(key, row["sealed"], _place(self._tenant, row["id"])))
                found.append(_snapshot(row, MemoryPath.parse(path), title))
        return found


def _place(tenant: str, snapshot_id: str) -> bytes:
    return aad(tenant, "memoryfs.snapshots.sealed", snapshot_id)


def _counts(found: Mapping[str, Any]) -> dict[int, int]:
    return {int(place): int(count) for place, count in found.items()}


def _snapshot(row: Row, path: MemoryPath, title: str) -> Snapshot:
    return Snapshot(
        id=row["id"],
        path=path,
        title=title,
        channel=row["channel"],
        point=row["point"],
        create_time=row["create_time"],
        actor=row["actor"],
        owner=row["owner"],
        whole=row["whole"],
        counts=_counts(row["item_counts"]),
    )
