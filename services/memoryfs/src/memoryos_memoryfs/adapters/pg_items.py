"""ItemStore on PostgreSQL: the truth and, in the same transaction, its index rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from memoryos_core.paths import MemoryPath
from memoryos_core.sealing import key_id_of
from memoryos_postgres import queries
from memoryos_postgres.database import array_literal
from memoryos_postgres.session_facts import SAW_UNTRUSTED, holder_params
from memoryos_postgres.transaction import Row
from memoryos_telemetry.context import current_trace_id

from memoryos_memoryfs.adapters.array_params import array_params
from memoryos_memoryfs.adapters.item_rows import columns_of, item_of
from memoryos_memoryfs.adapters.matching_ids import AFTER_ALL, matching_ids
from memoryos_memoryfs.adapters.newest_ids import newest_ids
from memoryos_memoryfs.adapters.pg_bindings import note_working
from memoryos_memoryfs.adapters.pg_derivations import PgDerivations
from memoryos_memoryfs.adapters.pg_index import IndexRows
from memoryos_memoryfs.adapters.places import Place, place_of, plan_once
from memoryos_memoryfs.adapters.seen_facts import PgSeen
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.derivation import SourceChange
from memoryos_memoryfs.domain.items import Cause, Item, State, Trust
from memoryos_memoryfs.domain.place_keys import path_key
from memoryos_memoryfs.domain.session_trust import taintable
from memoryos_memoryfs.ports.storage import Look, Revised, Written

_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
_TOGETHER_MIN: Final = 4
"""From so many items on one statement over arrays is cheaper than one each (an array parameter costs 5 µs)."""
_SESSION_TRUST: Final = f"CASE WHEN {SAW_UNTRUSTED} THEN {int(Trust.UNTRUSTED)} ELSE {int(Trust.TRUSTED)} END"
_INSERT_ITEM: Final = _QUERIES["insert_item"]
_INSERT_ITEMS: Final = _QUERIES["insert_items"]
# With what the session has seen, in the same round trip.
_INSERT_AGENTS_ITEM: Final = _INSERT_ITEM.replace("%(trust)s", f"greatest(%(trust)s, {_SESSION_TRUST})")
_INSERT_AGENTS_ITEMS: Final = _INSERT_ITEMS.replace("fresh.trust", f"greatest(fresh.trust, {_SESSION_TRUST})")


class PgItems:
    """The truth of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tx = session.tx
        self._index = IndexRows(session)
        self.derivations = PgDerivations(session, self)

    async def add(self, items: Sequence[Written], cause: Cause = Cause.WRITE) -> None:
        """See `ItemStore.add`."""
        if not items:
            return
        columns = await self.columns([written.item for written in items])
        stamp = self.stamp(cause)
        one, many = _INSERT_ITEM, _INSERT_ITEMS
        if self._doubtful(items, cause):
            one, many = _INSERT_AGENTS_ITEM, _INSERT_AGENTS_ITEMS
            stamp.update(holder_params(self._session.scope))
        if len(items) >= _TOGETHER_MIN:
            await self._tx.execute(many, {**array_params(columns), **stamp})
        else:
            for values in zip(*columns.values(), strict=True):
                # travels with COMMIT
                self._tx.defer(one, {**dict(zip(columns, values, strict=True)), **stamp})
        await self._index.put(items, fresh=True)
        await note_working(self._session, [written.item for written in items])

    async def revise(self, items: Sequence[Revised], cause: Cause = Cause.UPDATE) -> None:
        """See `ItemStore.revise`."""
        if self._doubtful([change.after for change in items], cause) and await PgSeen(self._session).tainted():
            items = [replace(change, after=_untrusted(change.after)) for change in items]
        await self.replace(items, cause)
        if cause is not Cause.ROLLBACK:
            await self.derivations.follow([SourceChange(before=c.before, after=c.after.item) for c in items])

    async def replace(self, items: Sequence[Revised], cause: Cause) -> None:
        """Make the revisions alone: what was made from the items does not follow."""
        if not items:
            return
        ids = [change.before.id for change in items]
        tenant = self._session.tenant
        now = items[0].after.item.update_time
        await self._tx.execute(_QUERIES["keep_revisions"], {"tenant": tenant, "ids": ids, "now": now})
        await self._tx.execute(_QUERIES["keep_vectors"], {"tenant": tenant, "ids": ids})
        columns = await self.columns([change.after.item for change in items])
        await self._tx.execute(_QUERIES["update_items"], {**array_params(columns), **self.stamp(cause)})
        hidden = {c.before.id: int(c.forgotten_from) for c in items if c.forgotten_from is not None}
        if hidden:
            params = {"tenant": tenant, "ids": list(hidden), "states": list(hidden.values())}
            await self._tx.execute(_QUERIES["keep_forgotten"], params)
        kept = await self._index.take(ids)
        after = []
        for change in items:
            written = change.after
            vector = kept.get(written.item.id) if change.keep_vector else written.vector
            after.append(Written(item=written.item, words=written.words, vector=vector))
        await self._index.put(after, fresh=True)
        await note_working(self._session, [change.after.item for change in items])

    def _doubtful(self, items: Sequence[Written], cause: Cause) -> bool:
        """Tell whether what the session has seen decides how far the items are trusted."""
        if not taintable(cause) or self._session.scope.alone:
            return False
        return any(written.item.trust is Trust.TRUSTED for written in items)

    async def find(self, ids: Sequence[str], *, last: bool = False) -> dict[str, Item]:
        """See `ItemStore.find`."""
        if not ids or not last:
            return await self._load("find_items", ids)
        plan_once(self._session)
        params = {"tenant": self._session.tenant, "ids": array_literal(tuple(ids))}
        rows = await self._tx.fetch_last(_QUERIES["find_items"], params, binary=True)
        return {item.id: item for item in await self.opened(rows)}

    async def find_alone(self, item_id: str) -> Item | None:
        """Give one item in a transaction by itself."""
        params = {"tenant": self._session.tenant, "ids": array_literal((item_id,))}
        rows = await self._tx.fetch_alone(_QUERIES["find_items"], params, binary=True)
        return next(iter(await self.opened(rows)), None) if rows else None

    async def lock(self, ids: Sequence[str]) -> dict[str, Item]:
        """See `ItemStore.lock`; the policy for updates hides what the caller may not change."""
        await self.derivations.lock_family(ids)
        return await self._load("lock_items", ids)

    async def set_state(self, items: Sequence[Item], state: State, cause: Cause) -> None:
        """See `ItemStore.set_state`."""
        await self.move(items, state, cause)
        if state is State.FORGOTTEN and cause is not Cause.ROLLBACK:
            await self.derivations.follow([SourceChange(before=item, after=None) for item in items])

    async def move(self, items: Sequence[Item], state: State, cause: Cause) -> None:
        """Change the state alone: what was made from the items does not follow."""
        ids = [item.id for item in items]
        tenant = self._session.tenant
        if state is State.FORGOTTEN:
            back: dict[str, State] = dict.fromkeys(ids, state)
            await self._tx.execute(_QUERIES["forget_items"], {"tenant": tenant, "ids": ids})
            await self._index.park(ids)
        else:
            await self._tx.execute(_QUERIES["restore_items"], {"tenant": tenant, "ids": ids})
            restored = await self.find(ids)
            back = {item_id: item.state for item_id, item in restored.items()}
            await self._index.unpark([restored[item_id] for item_id in ids])
        await self._tx.execute(
            _QUERIES["note_changes"],
            {
                **self.stamp(cause),
                "ids": ids,
                "from_states": [int(item.state) for item in items],
                "to_states": [int(back[item_id]) for item_id in ids],
            },
        )

    async def newest(self, look: Look, *, before: tuple[datetime, str] | None, limit: int) -> list[Item]:
        """See `ItemStore.newest`: what the index alone knows from there, all else from the truth."""
        place = await place_of(self._session, *look.paths)
        position = before or AFTER_ALL
        if not look.plain:
            ids = await matching_ids(self._session, place, look, before=position, limit=limit)
            found = await self.find(ids)
            return [found[item_id] for item_id in ids if item_id in found]
        return await self._walk(place, position, limit)

    async def _walk(self, place: Place, position: tuple[datetime, str], limit: int) -> list[Item]:
        """Walk the index from the newest on until `limit` items are served or it ends."""
        items: list[Item] = []
        now = self._session.shared.clock.now()
        while len(items) < limit:
            ids = await newest_ids(self._session, place, position, limit)
            found = await self.find([item_id for item_id, _ in ids])
            for item_id, _ in ids:
                item = found.get(item_id)
                if item and item.state is State.ACTIVE and not item.expired(now) and self._readable(item):
                    items.append(item)
            if len(ids) < limit:
                break
            position = (ids[-1][1], ids[-1][0])
        return items[:limit]

    def _readable(self, item: Item) -> bool:
        return access.readable(self._session.scope, item)

    async def _load(self, query: str, ids: Sequence[str]) -> dict[str, Item]:
        if not ids:
            return {}
        rows = await self._tx.fetch_all(
            _QUERIES[query], {"tenant": self._session.tenant, "ids": array_literal(tuple(ids))}, binary=True
        )
        return {item.id: item for item in await self.opened(rows)}

    async def opened(self, rows: Sequence[Row]) -> list[Item]:
        """Give the items of rows; one whose key is destroyed is not there any more."""
        tenant, shared = self._session.tenant, self._session.shared
        keys = await shared.keyring.by_ids(self._tx, tenant, {key_id_of(row["sealed"]) for row in rows})
        numbers = {row["owner"] for row in rows}.union(*(row["acl"] for row in rows))
        principals = await shared.names.principals(self._tx, tenant, numbers)
        items = []
        for row in rows:
            key = keys.get(key_id_of(row["sealed"]))
            if key is not None:
                items.append(item_of(tenant, row, key, principals))
        return items

    async def columns(self, items: Sequence[Item]) -> dict[str, Any]:
        """Give rows of items column by column, their places among them."""
        tenant, shared = self._session.tenant, self._session.shared
        principals = {item.owner for item in items}.union(*(item.readers for item in items))
        columns: dict[str, Any] = columns_of(
            tenant,
            items,
            data_keys=await shared.keyring.subject_keys(self._tx, tenant, {item.data_subject for item in items}),
            numbers=await shared.names.numbers(self._tx, tenant, principals),
            tenant_key=(await self._session.keys()).tokens,
        )
        places = {path: await self._path_id(path) for path in {item.path for item in items}}
        columns["path_id"] = [places[item.path] for item in items]
        return columns

    async def _path_id(self, path: MemoryPath) -> int:
        key = path_key((await self._session.keys()).tokens, path)
        return await self._session.shared.names.path_number(self._tx, self._session.tenant, key)

    def stamp(self, cause: Cause) -> dict[str, Any]:
        """Give who makes a revision, why and in which trace."""
        return {
            "tenant": self._session.tenant,
            "actor": self._session.scope.actor,
            "cause": int(cause),
            "trace_id": current_trace_id(),
        }


def _untrusted(written: Written) -> Written:
    return replace(written, item=replace(written.item, trust=Trust.UNTRUSTED))
