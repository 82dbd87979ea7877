"""When a source counts as another one, and what an item gains by it (I8)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Final

from memoryos_memoryfs.domain import gate
from memoryos_memoryfs.domain.drafts import etag_of
from memoryos_memoryfs.domain.items import Flag, Item, Source, State, Tier

SourceKey = tuple[str, ...]
"""One thing that can be pointed at: a message, a page of a document, a tool call."""
_VOUCHED: Final = 0.95
"""Confidence of what a person vouches for, before the cap of its origin."""


def source_keys(source: Source) -> frozenset[SourceKey]:
    """Give everything that a source points at; nothing when it is only somebody's word."""
    keys: set[SourceKey] = {("message", source.session_id, name) for name in source.message_ids}
    if source.document:
        keys.add(("document", source.document, str(source.page)))
    if source.call_id:
        keys.add(("call", source.call_id))
    return frozenset(keys)


def independent(offered: Collection[SourceKey], known: Collection[SourceKey]) -> bool:
    """Tell whether a source is another one than those known: it points at something, and at nothing of theirs."""
    return bool(offered) and not set(offered) & set(known)


def from_document(source: Source) -> bool:
    """Tell whether a document says it: then it is no echo of what was recalled."""
    return bool(source.document)


def corroborated(item: Item, confidence: float, threshold: float) -> Item:
    """Give the item with one more independent source of that confidence; a candidate becomes active.

    Two independent doubts are less doubt: 1 - (1-a)(1-b), within the cap of the origin and at
    least `threshold`, the gate of the place, where it is promoted. Text that reads like an
    instruction stays a candidate.
    """
    raised = 1 - (1 - item.confidence) * (1 - confidence)
    more = replace(
        item,
        corroboration_count=item.corroboration_count + 1,
        confidence=gate.capped_confidence(max(item.confidence, raised), item.origin),
    )
    return (
        promoted(more, threshold) if item.state is State.CANDIDATE and Flag.INSTRUCTION_LIKE not in item.flags else more
    )


def promoted(item: Item, threshold: float) -> Item:
    """Give the candidate as an active item, sure enough to stay one; its life is set by the caller."""
    sure = max(item.confidence, threshold)
    return replace(item, state=State.ACTIVE, confidence=sure, flags=item.flags & ~Flag.DISPUTED)


def vouched(item: Item, threshold: float) -> Item:
    """Give the candidate as an active item for which a person stands."""
    sure = gate.capped_confidence(max(item.confidence, _VOUCHED), item.origin)
    return promoted(replace(item, confidence=sure), threshold)


def disputed(item: Item, now: datetime) -> Item:
    """Give the active item as a candidate again: flagged, and gone in a day unless it is promoted."""
    return replace(
        item,
        state=State.CANDIDATE,
        flags=item.flags | Flag.DISPUTED,
        expire_time=gate.candidate_expiry(item.expire_time, now),
    )


def next_revision(before: Item, changed: Item, now: datetime) -> Item:
    """Give `changed` as the revision after `before`; who speaks of an item uses it, so it is hot."""
    revision = before.revision + 1
    return replace(changed, tier=Tier.HOT, revision=revision, etag=etag_of(before.id, revision, now), update_time=now)
