"""Items as rows of memoryfs.items: sealed on the way in, opened on the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memoryos_core.sealing import DataKey, aad, open_sealed, seal
from memoryos_postgres.database import array_literal
from memoryos_postgres.transaction import Row

from memoryos_memoryfs.domain.attributes import filterable
from memoryos_memoryfs.domain.items import EmbedState, Flag, Item, Origin, State, Tier, Trust
from memoryos_memoryfs.domain.payloads import decode_payload, encode_payload
from memoryos_memoryfs.domain.place_keys import event_key_hash


def _place(tenant: str, item_id: str, revision: int) -> bytes:
    """Bind a sealed payload to its revision: it opens in the current row and in the history alike."""
    return aad(tenant, "memoryfs.items.sealed", item_id, revision)


def columns_of(
    tenant: str,
    items: Sequence[Item],
    *,
    data_keys: Mapping[str, DataKey],
    numbers: Mapping[str, int],
    tenant_key: bytes,
) -> dict[str, list[Any]]:
    """Give the rows column by column, as parameters of insert_items and update_items."""
    payloads = [item.payload for item in items]
    return {
        "id": [item.id for item in items],
        "sealed": [
            seal(data_keys[item.data_subject], encode_payload(item.payload), _place(tenant, item.id, item.revision))
            for item in items
        ],
        "event_key_hash": [
            event_key_hash(tenant_key, payload.event_key) if payload.event_key else None for payload in payloads
        ],
        "tags": [array_literal(item.tags) for item in items],
        "owner": [numbers[item.owner] for item in items],
        "user_label": [item.user for item in items],
        "acl": ["{" + ",".join(str(numbers[reader]) for reader in item.readers) + "}" for item in items],
        "sensitivity": [item.sensitivity for item in items],
        "trust": [int(item.trust) for item in items],
        "origin": [int(item.origin) for item in items],
        "confidence": [item.confidence for item in items],
        "importance": [item.importance for item in items],
        "state": [int(item.state) for item in items],
        "valid_from": [item.valid_from for item in items],
        "valid_to": [item.valid_to for item in items],
        "create_time": [item.create_time for item in items],
        "update_time": [item.update_time for item in items],
        "expire_time": [item.expire_time for item in items],
        "tier": [int(item.tier) for item in items],
        "revision": [item.revision for item in items],
        "etag": [item.etag for item in items],
        "derived_from": [array_literal(item.derived_from) for item in items],
        "superseded_by": [item.superseded_by for item in items],
        "embedding_model": [item.embedding_model for item in items],
        "embed_state": [int(item.embed_state) for item in items],
        "attributes": [filterable(payload.attributes) for payload in payloads],
        "content_bytes": [len(payload.content.encode()) for payload in payloads],
        "pinned": [item.pinned for item in items],
        "flags": [int(item.flags) for item in items],
        "corroboration_count": [item.corroboration_count for item in items],
    }


def item_of(tenant: str, row: Row, key: DataKey, principals: Mapping[int, str]) -> Item:
    """Give the item of a row; raises SealedKeyUnavailable when the payload was changed or moved."""
    raw = open_sealed(key, row["sealed"], _place(tenant, row["id"], row["revision"]))
    return Item(
        id=row["id"],
        payload=decode_payload(raw),
        tags=tuple(row["tags"]),
        owner=principals[row["owner"]],
        user=row["user_label"],
        readers=tuple(principals[number] for number in row["acl"]),
        sensitivity=row["sensitivity"],
        trust=Trust(row["trust"]),
        origin=Origin(row["origin"]),
        confidence=row["confidence"],
        importance=row["importance"],
        state=State(row["state"]),
        valid_from=row["valid_from"],
        valid_to=row["valid_to"],
        create_time=row["create_time"],
        update_time=row["update_time"],
        expire_time=row["expire_time"],
        tier=Tier(row["tier"]),
        revision=row["revision"],
        etag=row["etag"],
        derived_from=tuple(row["derived_from"]),
        superseded_by=row["superseded_by"],
        embedding_model=row["embedding_model"],
        embed_state=EmbedState(row["embed_state"]),
        pinned=row["pinned"],
        flags=Flag(row["flags"]),
        corroboration_count=row["corroboration_count"],
    )
