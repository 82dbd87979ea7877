"""The index rows of items: words, order and vectors of what is active, parked vectors of what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.search_words import text_tokens
from memoryos_postgres import copy_binary, queries
from memoryos_vectors.halfvec import HalfVec, read_halfvec
from memoryos_vectors.ports import Tier as VectorTier
from memoryos_vectors.ports import Vector, VectorEntry

from memoryos_memoryfs.adapters.array_params import INT8_OID, array_fields, integers_literal
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.adapters.word_counts import packed_words
from memoryos_memoryfs.domain.items import EmbedState, Item, State, Tier
from memoryos_memoryfs.domain.place_keys import path_key, session_hash
from memoryos_memoryfs.ports.storage import Written

_QUERIES = queries.load("memoryos_memoryfs", "sql/items.sql")
_TIERS = queries.load("memoryos_memoryfs", "sql/upkeep.sql")
_COPY_MIN: Final = 8
"""COPY costs one round trip more than an INSERT; it wins from about this many rows on."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An item with the numbers that its index rows need."""

    written: Written
    path_id: int
    acl: tuple[int, ...]


class IndexRows:
    """Writes index rows in the transaction of their items."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tx = session.tx
        self._tenant = session.tenant

    async def put(self, items: Sequence[Written], *, fresh: bool) -> None:
        """Index the active ones, park the vectors of the others, and queue what has no vector.

        `fresh`: none of them has an index row. One whose vector is lost (swept as expired in this
        instant, made by an earlier model) waits for another one.
        """
        active = [written for written in items if written.item.state is State.ACTIVE]
        entries = await self._entries(active)
        await self._put_tokens(entries)
        cold = [w.item.id for w in active if w.item.tier is Tier.COLD]
        if cold:  # their words go where only those look who ask for cold items
            self._tx.defer(_TIERS["cool_tokens"], {"tenant": self._tenant, "ids": cold})
        await self._put_vectors(entries, fresh=fresh)
        lost = [w.item.id for w in active if w.vector is None and w.item.embed_state is EmbedState.DONE]
        if lost:
            await self._tx.execute(_QUERIES["wait_for_vectors"], {"tenant": self._tenant, "ids": lost})
        await self._enqueue([w.item for w in active if w.vector is None or w.item.embed_state is EmbedState.PENDING])
        for written in items:
            if written.item.state is not State.ACTIVE and written.vector is not None:
                await self._park(written.item.id, written.vector)

    async def put_vectors(self, items: Sequence[Written]) -> None:
        """Index the vectors of active items that had none."""
        await self._put_vectors(await self._entries(items), fresh=False)

    async def take(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Remove every index row of the items and give the vectors they had, parked ones too."""
        model_id = self._session.shared.model_id
        found = {**(await self._parked(ids)), **(await self._session.vectors().vectors(self._tenant, model_id, ids))}
        await self._remove(ids)
        await self._tx.execute(_QUERIES["unpark_vectors"], {"tenant": self._tenant, "ids": list(ids)})
        return found

    async def park(self, ids: Sequence[str]) -> None:
        """Remove every index row of the items; their vectors stay for Restore."""
        await self._tx.execute(_QUERIES["park_vectors"], {"tenant": self._tenant, "ids": list(ids)})
        await self._remove(ids)

    async def unpark(self, items: Sequence[Item]) -> None:
        """Bring back the index rows of items that are what they were before `park`."""
        active = [item for item in items if item.state is State.ACTIVE]
        ids = [item.id for item in active]
        vectors = await self._parked(ids)
        await self._tx.execute(_QUERIES["unpark_vectors"], {"tenant": self._tenant, "ids": ids})
        await self.put(
            [
                Written(item=item, words=text_tokens(item.payload.content), vector=vectors.get(item.id))
                for item in active
            ],
            fresh=True,
        )

    async def _remove(self, ids: Sequence[str]) -> None:
        # Rows that this transaction made itself are there to be removed.
        await self._tx.run_deferred()
        # Words before vectors, as the sweep of expired rows does: the two cannot lock each other out.
        await self._tx.execute(_QUERIES["delete_tokens"], {"tenant": self._tenant, "ids": list(ids)})
        await self._session.vectors().delete(self._tenant, ids)
        await self._tx.execute(_QUERIES["dequeue_embeds"], {"tenant": self._tenant, "ids": list(ids)})

    async def _entries(self, items: Sequence[Written]) -> list[_Entry]:
        session = self._session
        key = (await session.keys()).tokens
        principals = {written.item.owner for written in items}.union(*(written.item.readers for written in items))
        numbers = await session.shared.names.numbers(self._tx, self._tenant, principals)
        places = {
            path: await session.shared.names.path_number(self._tx, self._tenant, path_key(key, path))
            for path in {written.item.path for written in items}
        }
        entries = []
        for written in items:
            item = written.item
            acl: tuple[int, ...] = (numbers[item.owner],)
            if item.readers:
                acl = tuple(dict.fromkeys((*acl, *(numbers[reader] for reader in item.readers))))
            entries.append(_Entry(written, places[item.path], acl))
        return entries

    async def _put_vectors(self, entries: Sequence[_Entry], *, fresh: bool) -> None:
        await self._session.vectors().upsert(
            self._tenant,
            self._session.shared.model_id,
            [_vector_entry(entry, entry.written.vector) for entry in entries if entry.written.vector is not None],
            fresh=fresh,
        )

    async def _put_tokens(self, entries: Sequence[_Entry]) -> None:
        if not entries:
            return
        keys = await self._session.keys()
        hashes = [self._session.shared.hashes.of(keys, entry.written.words) for entry in entries]
        packed = packed_words(hashes, [list(entry.written.words.values()) for entry in entries])
        rows: list[dict[str, Any]] = [
            {
                "tenant": self._tenant,
                "item_id": entry.written.item.id,
                "path_id": entry.path_id,
                "acl": list(entry.acl),
                "create_time": entry.written.item.create_time,
                "expire_time": entry.written.item.expire_time,
                "hashes": hashed,
                "words": words,
                "length": sum(entry.written.words.values()),
                "session_hash": session_hash(
                    keys.tokens, entry.written.item.owner, entry.written.item.payload.source.session_id
                ),
            }
            for entry, hashed, words in zip(entries, hashes, packed, strict=True)
        ]
        if len(rows) >= _COPY_MIN:
            await self._tx.copy_whole(_QUERIES["copy_tokens"], _token_stream(rows))
        else:
            for row in rows:
                literals = {name: integers_literal(row[name]) for name in ("acl", "hashes")}
                self._tx.defer(_QUERIES["insert_tokens"], {**row, **literals})  # travels with COMMIT

    async def _enqueue(self, items: Sequence[Item]) -> None:
        if items:
            await self._tx.execute(
                _QUERIES["enqueue_embeds"],
                {
                    "tenant": self._tenant,
                    "ids": [item.id for item in items],
                    "owners": [item.owner for item in items],
                },
            )

    async def _park(self, item_id: str, vector: Vector) -> None:
        await self._tx.execute(
            _QUERIES["park_vector"],
            {
                "tenant": self._tenant,
                "item_id": item_id,
                "model_id": self._session.shared.model_id,
                "vec": HalfVec(vector),
            },
        )

    async def _parked(self, ids: Sequence[str]) -> dict[str, Vector]:
        rows = await self._tx.fetch_all(
            _QUERIES["parked_vectors"],
            {"tenant": self._tenant, "ids": list(ids), "model_id": self._session.shared.model_id},
            binary=True,
        )
        return {row["item_id"]: read_halfvec(row["vec"]) for row in rows}


_TIER_OF: Final = {Tier.HOT: VectorTier.HOT, Tier.COLD: VectorTier.COLD}


def _vector_entry(entry: _Entry, vector: Vector | None) -> VectorEntry:
    assert vector is not None
    item = entry.written.item
    return VectorEntry(
        item_id=item.id,
        revision=item.revision,
        path_id=entry.path_id,
        acl=entry.acl,
        vector=vector,
        tier=_TIER_OF[item.tier],
    )


def _token_stream(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Give the rows of item_tokens as one binary COPY."""
    hashes = array_fields(INT8_OID, [row["hashes"] for row in rows])
    return copy_binary.whole(
        (
            (
                copy_binary.text(row["tenant"]),
                copy_binary.text(row["item_id"]),
                copy_binary.int4(row["path_id"]),
                copy_binary.int4s(tuple(row["acl"])),
                copy_binary.timestamptz(row["create_time"]),
                copy_binary.timestamptz(row["expire_time"]),
                hashed,
                copy_binary.data(row["words"]),
                copy_binary.int4(row["length"]),
                copy_binary.NULL if row["session_hash"] is None else copy_binary.int8(row["session_hash"]),
            )
            for row, hashed in zip(rows, hashes, strict=True)
        ),
        fields=10,
    )
