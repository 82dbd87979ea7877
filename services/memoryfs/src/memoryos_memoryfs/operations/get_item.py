"""Get: one item by name."""

from __future__ import annotations

from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.errors import ItemNotFound
from memoryos_memoryfs.parts import Parts

_RPC = "memoryos.memoryfs.v1.MemoryFS/Get"


async def get_item(parts: Parts, scope: Scope, item_id: str) -> Item:
    """Give the current revision of an item.

    One that is not there, expired, forgotten, another owner's candidate, above
    the caller's clearance or outside the token's paths is `ItemNotFound` alike;
    the audit keeps that it was asked for.
    """
    item = await parts.storage.find_one(scope, item_id)
    if item is None or not access.visible(scope, item) or item.expired(parts.clock.now()):
        await parts.trail.record(_RPC, scope, None, [item_id], found=False)
        raise ItemNotFound
    await parts.trail.gave(_RPC, scope, item.path, [item])
    return item
