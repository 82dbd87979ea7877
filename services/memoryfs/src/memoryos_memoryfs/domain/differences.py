"""How one state of an item differs from another, by the names of the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from memoryos_memoryfs.domain.items import Item


class DiffKind(IntEnum):
    """Numbers of the proto's DiffKind."""

    ADDED = 1
    CHANGED = 2
    REMOVED = 3
    ACL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One item that differs; a side that is not there, or not for the caller to see, is None."""

    id: str
    kind: DiffKind
    fields: tuple[str, ...] = ()
    before: Item | None = None
    after: Item | None = None


_ACL_FIELDS: Final = frozenset({"readers", "sensitivity"})


def difference(item_id: str, before: Item | None, after: Item | None) -> Difference | None:
    """Give how the two differ; None where they do not."""
    if before is None and after is None:
        return None
    if before is None:
        return Difference(id=item_id, kind=DiffKind.ADDED, after=after)
    if after is None:
        return Difference(id=item_id, kind=DiffKind.REMOVED, before=before)
    then, now = _fields(before), _fields(after)
    changed = tuple(name for name in then if then[name] != now[name])
    if not changed:
        return None
    kind = DiffKind.ACL if _ACL_FIELDS.issuperset(changed) else DiffKind.CHANGED
    return Difference(id=item_id, kind=kind, fields=changed, before=before, after=after)


def _fields(item: Item) -> dict[str, Any]:
    """Give what makes the state of an item, without number, etag and time, and without how far its index is."""
    return {
        "path": item.path,
        "content": item.payload.content,
        "attributes_json": item.payload.attributes,
        "tags": item.tags,
        "owner": item.owner,
        "user": item.user,
        "readers": item.readers,
        "sensitivity": item.sensitivity,
        "trust": item.trust,
        "source": item.payload.source,
        "origin": item.origin,
        "confidence": item.confidence,
        "importance": item.importance,
        "state": item.state,
        "valid_from": item.valid_from,
        "valid_to": item.valid_to,
        "expire_time": item.expire_time,
        "tier": item.tier,
        "derived_from": item.derived_from,
        "superseded_by": item.superseded_by,
        "event_key": item.payload.event_key,
        "pinned": item.pinned,
        "flags": item.flags,
        "corroboration_count": item.corroboration_count,
    }
