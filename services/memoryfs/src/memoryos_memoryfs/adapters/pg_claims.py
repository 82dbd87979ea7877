"""Claims on PostgreSQL: keyed hashes, under advisory locks that end with the transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from memoryos_core.sealing import aad, seal
from memoryos_postgres import queries
from memoryos_postgres.database import array_literal

from memoryos_memoryfs.adapters.array_params import integers_literal
from memoryos_memoryfs.adapters.session import Session
from memoryos_memoryfs.domain.evidence import SourceKey, independent
from memoryos_memoryfs.domain.items import EventKey, Item
from memoryos_memoryfs.domain.place_keys import event_key_hash
from memoryos_memoryfs.ports.lifecycle import Met

_QUERIES = queries.load("memoryos_memoryfs", "sql/lifecycle.sql")
MET_MAX: Final = 256
"""Items looked at for one call; of more that say the same, or speak of the same event, the newest."""


class PgClaims:
    """What says the same, as one transaction sees it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tx = session.tx
        self._tenant = session.tenant

    async def meet(self, signatures: Sequence[str], events: Sequence[EventKey]) -> Met:
        """See `Claims.meet`."""
        key = (await self._session.keys()).tokens
        numbers = {_number(key, text): text for text in signatures}
        hashes = {event_key_hash(key, event): event for event in events}
        places = [_number(key, f"{self._tenant}\n{digest.hex()}") for digest in hashes]
        rows = await self._tx.fetch_guarded(
            sorted({*(_number(key, f"{self._tenant}\n{number}") for number in numbers), *places}),
            _QUERIES["claims_met" if hashes else "claims_said"],
            {
                "tenant": self._tenant,
                "signatures": integers_literal(list(numbers)),
                "events": list(hashes),
                "limit": MET_MAX,
            },
        )
        same: dict[str, list[str]] = {text: [] for text in signatures}
        spoken: dict[EventKey, list[str]] = {event: [] for event in events}
        for row in rows:
            if row["signature"] is not None:
                same[numbers[row["signature"]]].append(row["id"])
            else:
                spoken[hashes[bytes(row["event"])]].append(row["id"])
        return Met(same=same, events=spoken)

    async def note(self, signatures: Mapping[str, str]) -> None:
        """See `Claims.note`."""
        if not signatures:
            return
        key = (await self._session.keys()).tokens
        numbers = integers_literal([_number(key, text) for text in signatures.values()])
        params = {"tenant": self._tenant, "ids": array_literal(tuple(signatures)), "signatures": numbers}
        self._tx.defer(_QUERIES["note_claims"], params)

    async def corroborates(self, item_id: str, own: frozenset[SourceKey], offered: frozenset[SourceKey]) -> bool:
        """See `Claims.corroborates`."""
        if not independent(offered, own):
            return False
        rows = await self._tx.fetch_all(_QUERIES["evidence_of"], {"tenant": self._tenant, "item_id": item_id})
        counted = {bytes(row["source_hash"]) for row in rows}
        return not counted.intersection(await self._hashes(offered))

    async def count_in(self, item_id: str, keys: frozenset[SourceKey]) -> None:
        """See `Claims.count_in`."""
        params = {"tenant": self._tenant, "item_id": item_id, "actor": self._session.scope.actor}
        await self._tx.execute(_QUERIES["note_evidence"], {**params, "hashes": await self._hashes(keys)})

    async def keep_lives(self, expire_times: Mapping[str, datetime]) -> None:
        """See `Claims.keep_lives`."""
        if expire_times:
            params = {"ids": list(expire_times), "expire_times": list(expire_times.values())}
            await self._tx.execute(_QUERIES["note_lives"], {"tenant": self._tenant, **params})

    async def take_lives(self, ids: Sequence[str]) -> Mapping[str, datetime]:
        """See `Claims.take_lives`."""
        params = {"tenant": self._tenant, "ids": list(ids)}
        rows = await self._tx.fetch_all(_QUERIES["lives"], params)
        if rows:
            await self._tx.execute(_QUERIES["end_lives"], params)
        return {row["item_id"]: row["expire_time"] for row in rows}

    async def keep_reason(self, item: Item, reason: str) -> None:
        """See `Claims.keep_reason`."""
        key = await self._session.shared.keyring.subject_key(self._tx, self._tenant, item.data_subject)
        place = aad(self._tenant, "memoryfs.change_reasons.sealed", item.id, item.revision)
        params = {"tenant": self._tenant, "item_id": item.id, "revision": item.revision}
        await self._tx.execute(_QUERIES["keep_reason"], {**params, "sealed": seal(key, reason.encode(), place)})

    async def used_since(self, ids: Sequence[str], since: datetime) -> frozenset[str]:
        """See `Claims.used_since`."""
        params = {"tenant": self._tenant, "ids": list(ids), "since": since}
        rows = await self._tx.fetch_all(_QUERIES["used_since"], params)
        return frozenset(row["item_id"] for row in rows)

    async def _hashes(self, keys: frozenset[SourceKey]) -> list[bytes]:
        key = (await self._session.keys()).tokens
        return [_digest(key, b"memoryfs.source", json.dumps(part, ensure_ascii=False)) for part in sorted(keys)]


def _digest(key: bytes, purpose: bytes, text: str, size: int = 16) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=size, person=purpose).digest()


def _number(key: bytes, text: str) -> int:
    return int.from_bytes(_digest(key, b"memoryfs.claim", text, 8), "big", signed=True)
