"""The worker that gives vectors to items written while the embedder was down."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby

from memoryos_core.errors import MemoryOSError
from memoryos_models.ports import Embedder

from memoryos_memoryfs.config import MemoryFSSection
from memoryos_memoryfs.domain.items import Item
from memoryos_memoryfs.operations.embed_texts import vectors_of
from memoryos_memoryfs.ports.storage import DueEmbed, EmbedQueue

_log = logging.getLogger(__name__)


async def embed_pending(queue: EmbedQueue, embedder: Embedder, section: MemoryFSSection) -> int:
    """Give the number of items that have their vector now, of one batch of due rows.

    One item that cannot be embedded holds up no other: when a batch fails its
    items are tried one by one. After `embed_attempts_max` tries an item is left
    without a vector, which is logged and stays in the queue table as failed.
    """
    rows = await queue.due(section.embed_batch)
    rows.sort(key=lambda row: (row.tenant, row.owner))
    done = 0
    for _, group in groupby(rows, key=lambda row: (row.tenant, row.owner)):
        done += await _embed_group(queue, embedder, section, list(group))
    return done


async def _embed_group(
    queue: EmbedQueue, embedder: Embedder, section: MemoryFSSection, rows: Sequence[DueEmbed]
) -> int:
    """Embed the items of one owner."""
    reason = "INTERNAL"
    try:
        items = list((await queue.load(rows)).values())
        return await _keep(queue, embedder, section, items) if items else 0
    except MemoryOSError as error:
        reason = error.reason
    except Exception:
        # A poison item must not stop the worker; its reason is kept with it.
        _log.exception("embedding failed", extra={"rows": len(rows)})
    if len(rows) > 1:
        return sum([await _embed_group(queue, embedder, section, [row]) for row in rows])
    given_up = await queue.put_off(rows, reason)
    if given_up:
        _log.error("item left without a vector", extra={"item_id": rows[0].item_id, "reason": reason})
    return 0


async def _keep(queue: EmbedQueue, embedder: Embedder, section: MemoryFSSection, items: Sequence[Item]) -> int:
    vectors = await vectors_of(embedder, [item.payload.content for item in items], section.embed_timeout_s)
    return await queue.keep(items, vectors)
