"""Lineage: what an item came from, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.answers import fitting
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.errors import ItemNotFound
from memoryos_memoryfs.parts import Parts

RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Lineage"
DEPTH_DEFAULT: Final = 3
ITEMS_MAX: Final = 500
"""Items in one answer; beyond it the answer is truncated."""


class EdgeKind(IntEnum):
    """How one item came of another; numbers of the proto's LineageKind."""

    DERIVED = 1
    SUPERSEDED = 2


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One step, from the earlier item to the later."""

    from_id: str
    to_id: str
    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Traced:
    """The items that the caller may read, the asked one first, and how they hang together."""

    items: list[Item]
    edges: list[Edge]
    truncated: bool


async def trace_lineage(parts: Parts, scope: Scope, item_id: str, depth: int) -> Traced:
    """Give the lineage of an item up to `depth` steps either way, over items that the caller may read alone.

    Others are neither named nor counted, and what lies behind them is not
    found. `ItemNotFound` for anyone whom Get would not give the item either.
    """
    found: dict[str, Item] = {}
    truncated = False
    now = parts.clock.now()

    def served(items: Iterable[Item]) -> list[Item]:
        return [item for item in items if access.visible(scope, item) and not item.expired(now)]

    async with parts.storage.transaction(scope) as work:
        frontier = served((await work.items.find([item_id])).values())
        for _ in range(depth or DEPTH_DEFAULT):
            found.update((item.id, item) for item in frontier)
            if not frontier:
                break
            near = await work.history.around(frontier, ITEMS_MAX + 1)
            fresh = [item for item in served(near) if item.id not in found]
            room = ITEMS_MAX - len(found)
            truncated = truncated or len(fresh) > room or len(near) > ITEMS_MAX
            frontier = fresh[:room]
        found.update((item.id, item) for item in frontier)
        if frontier and not truncated:
            beyond = served(await work.history.around(frontier, ITEMS_MAX + 1))
            truncated = any(item.id not in found for item in beyond)
    if item_id not in found:
        await parts.trail.record(RPC, scope, None, [item_id], found=False)
        raise ItemNotFound
    items = list(found.values())
    fits = fitting(items)
    kept = {item.id for item in items[:fits]}
    await parts.trail.gave(RPC, scope, found[item_id].path, items[:fits], ids=sorted(kept))
    shown = [_named_only(item, kept) for item in items[:fits]]
    return Traced(shown, _edges(shown), truncated or fits < len(items))


def _named_only(item: Item, kept: set[str]) -> Item:
    """Give the item without the names of items that are not in the answer."""
    return replace(
        item,
        derived_from=tuple(name for name in item.derived_from if name in kept),
        superseded_by=item.superseded_by if item.superseded_by in kept else "",
    )


def _edges(items: Iterable[Item]) -> list[Edge]:
    edges: set[Edge] = set()
    for item in items:
        edges.update(Edge(source, item.id, EdgeKind.DERIVED) for source in item.derived_from)
        if item.superseded_by:
            edges.add(Edge(item.id, item.superseded_by, EdgeKind.SUPERSEDED))
    return sorted(edges)
