"""What the erasure asks of the copy of the dense index: remove, and search for what is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from memoryos_vectors.errors import IndexAbsent
from memoryos_vectors.ports import DerivedIndex

from memoryos_memoryfs.ports.index import IndexParts

_PAGE: Final = 500


async def erase_from_copy(parts: IndexParts, tenant: str, item_ids: Sequence[str] | None) -> int:
    """Give the number of entries removed: those of the items, or (None) of the whole tenant.

    The truth's own rows are to be gone before. Raises `IndexUnavailable`: try again.
    Without a copy there is nothing to remove, be it that none is configured or that none was made.
    """
    if parts.copy is None:
        return 0
    removed = 0
    for model_id in parts.models.dimensions:
        with suppress(IndexAbsent):
            async for ids in _found(parts.copy, model_id, tenant, item_ids):
                await parts.copy.replace(tenant, model_id, (), ids)
                removed += len(ids)
    return removed


async def find_in_copy(parts: IndexParts, tenant: str, item_ids: Sequence[str] | None) -> int:
    """Give the number of items, of those named or of the tenant, that the copy still holds."""
    if parts.copy is None:
        return 0
    held: set[str] = set()
    for model_id in parts.models.dimensions:
        with suppress(IndexAbsent):
            async for ids in _found(parts.copy, model_id, tenant, item_ids):
                held.update(ids)
    return len(held)


async def _found(
    copy: DerivedIndex, model_id: str, tenant: str, item_ids: Sequence[str] | None
) -> AsyncIterator[list[str]]:
    """Give the names of what the copy holds for a model, some at a time."""
    if item_ids is not None:
        for start in range(0, len(item_ids), _PAGE):
            kept = await copy.kept(tenant, model_id, item_ids[start : start + _PAGE])
            if kept:
                yield list(kept)
        return
    position = ""
    while True:
        page = await copy.scan(tenant, model_id, position=position, limit=_PAGE)
        if page.entries:
            yield [entry.item_id for entry in page.entries]
        position = page.next_position
        if not position:
            return
