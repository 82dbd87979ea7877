"""VerifyIndex: the copy compared with the truth, entry by entry, and mended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np
from memoryos_vectors.ports import DerivedIndex, KeptEntry, VectorEntry

from memoryos_memoryfs.ports.index import IndexParts

_PAGE: Final = 500
LOOKS: Final = 4
"""Times that the same difference is seen before it is one: a change may come between two reads of a look."""


@dataclass(slots=True, kw_only=True)
class Drift:
    """What was found; counts of entries."""

    compared: int = 0
    missing: int = 0
    """In the truth, not in the copy."""
    stale: int = 0
    """Of another revision than the truth's."""
    wrong: int = 0
    """Of the same revision, with other readers, place, tier or vector."""
    orphaned: int = 0
    """In the copy, not in the truth."""
    repaired: int = 0
    """Of all these, named to be copied anew."""
    tenants: list[str] = field(default_factory=list)
    """Tenants in which something was found."""

    @property
    def found(self) -> int:
        """Entries that are not as they should be."""
        return self.missing + self.stale + self.wrong + self.orphaned

    def counts(self) -> dict[str, int]:
        """Give the counts by name, without tenants."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, int)}


async def verify_index(
    parts: IndexParts, index: DerivedIndex, *, repair: bool, after_tenant: str = "", drift: Drift | None = None
) -> AsyncIterator[tuple[str, Drift]]:
    """Compare tenant after tenant, giving each with what was found so far (added to `drift`).

    Changes that wait are no drift. What differs is looked at again, since it
    may change meanwhile. Repair names the entries in the outbox: whoever
    copies changes mends them, and until then reads take them from the truth.
    """
    drift = Drift() if drift is None else drift
    model_id = parts.model_id
    tenants = {*(await parts.truth.counts(model_id)), *(await index.counts(model_id))}
    for tenant in sorted(name for name in tenants if name > after_tenant):
        before = drift.found
        await _verify_truth(parts, index, tenant, drift, repair=repair)
        await _verify_copy(parts, index, tenant, drift, repair=repair)
        if drift.found > before:
            drift.tenants.append(tenant)
        yield tenant, drift


async def _verify_truth(parts: IndexParts, index: DerivedIndex, tenant: str, drift: Drift, *, repair: bool) -> None:
    """Find what the copy lacks or holds otherwise."""
    after_id = ""
    while page := await parts.truth.page(tenant, parts.model_id, after_id, _PAGE):
        after_id = page[-1].item_id
        drift.compared += len(page)
        kept = await index.kept(tenant, parts.model_id, [entry.item_id for entry in page])
        doubtful = [entry.item_id for entry in page if _difference(entry, kept.get(entry.item_id))]
        truth: Mapping[str, VectorEntry] = {}
        found: dict[str, str] = {}
        for _ in range(LOOKS - 1):
            again = await _settled(parts, tenant, doubtful)
            truth = await parts.truth.of(tenant, parts.model_id, again)
            kept = await index.kept(tenant, parts.model_id, again)
            found = {
                item_id: kind
                for item_id, entry in truth.items()
                if (kind := _difference(entry, kept.get(item_id))) is not None
            }
            doubtful = list(found)
            if not doubtful:
                break
        for kind in found.values():
            setattr(drift, kind, getattr(drift, kind) + 1)
        if repair and found:
            drift.repaired += len(found)
            await _mend(parts, index, tenant, truth, kept, list(found))


async def _mend(
    parts: IndexParts,
    index: DerivedIndex,
    tenant: str,
    truth: Mapping[str, VectorEntry],
    kept: Mapping[str, KeptEntry],
    item_ids: Sequence[str],
) -> None:
    """Name entries to be copied; those that would not be replaced, being of a later revision, go first."""
    await parts.outbox.name(tenant, item_ids)
    later = [name for name in item_ids if name in kept and kept[name].revision > truth[name].revision]
    if later:
        await index.delete(tenant, later)


async def _verify_copy(parts: IndexParts, index: DerivedIndex, tenant: str, drift: Drift, *, repair: bool) -> None:
    """Find what the copy holds beyond the truth."""
    position = ""
    while True:
        page = await index.scan(tenant, parts.model_id, position=position, limit=_PAGE)
        ids = [entry.item_id for entry in page.entries]
        truth = await parts.truth.of(tenant, parts.model_id, ids)
        again = await _settled(parts, tenant, [name for name in ids if name not in truth])
        there = await index.kept(tenant, parts.model_id, again)
        truth = await parts.truth.of(tenant, parts.model_id, again)
        orphans = [name for name in again if name in there and name not in truth]
        drift.orphaned += len(orphans)
        if repair and orphans:
            drift.repaired += len(orphans)
            await parts.outbox.name(tenant, orphans)
        position = page.next_position
        if not position:
            return


async def _settled(parts: IndexParts, tenant: str, item_ids: Sequence[str]) -> list[str]:
    """Give those of the items that do not wait to be copied."""
    waiting = await parts.outbox.pending(tenant, item_ids) if item_ids else frozenset()
    return [item_id for item_id in item_ids if item_id not in waiting]


def _difference(entry: VectorEntry, kept: KeptEntry | None) -> str | None:
    """Give the kind of drift, None where the copy is as the truth."""
    if kept is None:
        return "missing"
    if kept.revision != entry.revision:
        return "stale"
    same = (
        set(kept.acl) == set(entry.acl)
        and kept.path_id == entry.path_id
        and kept.tier is entry.tier
        and kept.vector is not None
        and np.array_equal(kept.vector, entry.vector)
    )
    return None if same else "wrong"
