"""Bindings on PostgreSQL, and the scope that they leave a call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from memoryos_core.paths import Kind, MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.sealing import DataKey, aad, key_id_of, open_sealed, seal
from memoryos_postgres import Database, queries
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.adapters.session import Session, Shared
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.bindings import (
    Binding,
    Target,
    TargetKind,
    bounded,
    targets_of,
    targets_of_item,
)
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.domain.place_keys import target_hash
from memoryos_memoryfs.ports.bindings import DueBinding, NewBinding

_QUERIES = queries.load("memoryos_memoryfs", "sql/bindings.sql")
_Places = tuple[MemoryPath, ...]


class PgBindings:
    """Bindings as one transaction sees them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tx = session.tx
        self._tenant = session.tenant
        self._owner = access.owner_of(session.scope)

    async def keep(self, new_id: str, new: NewBinding) -> Binding:
        """See `Bindings.keep`."""
        target = await self._hash(new.target)
        named = {"tenant": self._tenant, "owner": self._owner, "target": target}
        # Made and replaced under one name, to which what is sealed is bound.
        before = await self._tx.fetch_one(_QUERIES["binding_of_target"], named)
        binding_id = before["id"] if before else new_id
        key = await self._session.shared.keyring.subject_key(self._tx, self._tenant, self._session.scope.user)
        body = [new.target.kind, new.target.name, _texts(new.read_paths), _texts(new.write_paths)]
        row = await self._tx.fetch_one(
            _QUERIES["keep_binding"],
            {
                **named,
                "id": binding_id,
                "kind": int(new.target.kind),
                "sealed": seal(key, json.dumps(body, ensure_ascii=False).encode(), _place(self._tenant, binding_id)),
                "owns": new.owns_working_memory,
                "ttl": new.ttl,
            },
        )
        assert row is not None
        await self._tx.execute(
            _QUERIES["keep_due_binding"],
            {"tenant": self._tenant, "id": row["id"], "owner": self._owner, "due_time": row["expire_time"]},
        )
        return Binding(
            id=row["id"],
            target=new.target,
            read_paths=new.read_paths,
            write_paths=new.write_paths,
            owns_working_memory=new.owns_working_memory,
            create_time=row["create_time"],
            expire_time=row["expire_time"],
        )

    async def lock(self, binding_id: str) -> Binding | None:
        """See `Bindings.lock`."""
        return next(iter(await self._open(await self._find(binding_id))), None)

    async def live(self, binding_id: str) -> bool:
        """See `Bindings.live`."""
        return any(row["live"] for row in await self._find(binding_id))

    async def count(self) -> int:
        """See `Bindings.count`."""
        params = {"tenant": self._tenant, "owner": self._owner}
        return int(await self._tx.fetch_value(_QUERIES["count_bindings"], params))

    async def newest(self, targets: Sequence[Target], *, before: str, limit: int) -> list[Binding]:
        """See `Bindings.newest`."""
        params = {
            "tenant": self._tenant,
            "owner": self._owner,
            "targets": [await self._hash(target) for target in targets],
            "before": before,
            "limit": limit,
        }
        return await self._open(await self._tx.fetch_all(_QUERIES["list_bindings"], params, binary=True))

    async def working_ids(self, binding: Binding) -> list[str]:
        """See `Bindings.working_ids`."""
        params = {"tenant": self._tenant, "target": await self._hash(binding.target)}
        return [row["item_id"] for row in await self._tx.fetch_all(_QUERIES["working_items"], params)]

    async def drop_due(self, binding_id: str) -> None:
        """See `Bindings.drop_due`."""
        await self._tx.execute(_QUERIES["drop_due_binding"], {"tenant": self._tenant, "id": binding_id})

    async def end(self, binding: Binding, forget_time: datetime | None) -> None:
        """See `Bindings.end`."""
        named = {"tenant": self._tenant, "id": binding.id}
        target = {"tenant": self._tenant, "target": await self._hash(binding.target)}
        if binding.owns_working_memory:
            await self._tx.execute(_QUERIES["drop_working_items"], target)
        if forget_time is None:
            await self._tx.execute(_QUERIES["drop_binding"], named)
            await self._tx.execute(_QUERIES["drop_due_binding"], named)
            return
        await self._tx.execute(_QUERIES["end_binding"], named)
        await self._tx.execute(_QUERIES["keep_due_binding"], {**named, "owner": self._owner, "due_time": forget_time})

    async def _find(self, binding_id: str) -> list[Row]:
        params = {"tenant": self._tenant, "id": binding_id}
        return await self._tx.fetch_all(_QUERIES["find_binding"], params, binary=True)

    async def _hash(self, target: Target) -> bytes:
        return target_hash((await self._session.keys()).tokens, int(target.kind), target.name)

    async def _open(self, rows: Sequence[Row]) -> list[Binding]:
        ids = {key_id_of(row["sealed"]) for row in rows}
        keys = await self._session.shared.keyring.by_ids(self._tx, self._tenant, ids)
        found = []
        for row in rows:
            key = keys.get(key_id_of(row["sealed"]))
            if key is None:  # its user was erased
                continue
            target, read, write = _opened(self._tenant, row, key)
            found.append(
                Binding(
                    id=row["id"],
                    target=target,
                    read_paths=read,
                    write_paths=write,
                    owns_working_memory=row["owns_working_memory"],
                    create_time=row["create_time"],
                    expire_time=row["expire_time"],
                )
            )
        return found


class BoundScopes:
    """Narrows the scope of a call to what its session, its task and its agents are bound to."""

    def __init__(self, database: Database, shared: Shared) -> None:
        self._database = database
        self._shared = shared

    async def narrow(self, scope: Scope) -> Scope:
        """Give the scope below every binding that holds for it; one round trip, none without a target.

        What cannot be opened any more lets nothing through.
        """
        targets = targets_of(scope)
        if not targets:
            return scope
        async with self._database.scoped(scope) as tx:
            keys = await self._shared.keyring.tenant_keys(tx, scope.tenant)
            rows = await tx.fetch_alone(
                _QUERIES["binding_ceilings"],
                {
                    "tenant": scope.tenant,
                    "owner": access.owner_of(scope),
                    "targets": [target_hash(keys.tokens, int(target.kind), target.name) for target in targets],
                },
                binary=True,
            )
            if not rows:
                return scope
            opening = await self._shared.keyring.by_ids(tx, scope.tenant, {key_id_of(row["sealed"]) for row in rows})
        ceilings: list[tuple[_Places, _Places]] = []
        for row in rows:
            key = opening.get(key_id_of(row["sealed"]))
            ceilings.append(((), ()) if key is None else _opened(scope.tenant, row, key)[1:])
        return bounded(scope, ceilings)


class PgBindingQueue:
    """See `BindingQueue`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, limit: int) -> list[DueBinding]:
        """See `BindingQueue.due`."""
        async with self._database.unscoped() as tx:
            rows = await tx.fetch_all(_QUERIES["due_bindings"], {"limit": limit})
        return [DueBinding(row["tenant"], row["id"], row["owner"]) for row in rows]

    async def put_off(self, row: DueBinding) -> None:
        """See `BindingQueue.put_off`."""
        async with self._database.unscoped() as tx:
            await tx.execute(_QUERIES["put_off_binding"], {"tenant": row.tenant, "id": row.id})


async def note_working(session: Session, items: Sequence[Item]) -> None:
    """Keep from which task and session working items came, in the transaction that writes them."""
    pairs = [(target, item.id) for item in items if item.path.kind is Kind.WORKING for target in targets_of_item(item)]
    if not pairs:
        return
    key = (await session.keys()).tokens
    session.tx.defer(
        _QUERIES["note_working_items"],
        {
            "tenant": session.tenant,
            "targets": [target_hash(key, int(target.kind), target.name) for target, _ in pairs],
            "ids": [item_id for _, item_id in pairs],
        },
    )


def _opened(tenant: str, row: Row, key: DataKey) -> tuple[Target, _Places, _Places]:
    kind, name, read, write = json.loads(open_sealed(key, row["sealed"], _place(tenant, row["id"])))
    return (
        Target(TargetKind(kind), name),
        tuple(MemoryPath.parse(path) for path in read),
        tuple(MemoryPath.parse(path) for path in write),
    )


def _place(tenant: str, binding_id: str) -> bytes:
    return aad(tenant, "memoryfs.bindings.sealed", binding_id)


def _texts(paths: Sequence[MemoryPath]) -> list[str]:
    return [str(path) for path in paths]
