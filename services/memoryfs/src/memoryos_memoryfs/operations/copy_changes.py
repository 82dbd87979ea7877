"""The worker that keeps the copy of the dense index what the truth is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_vectors.errors import IndexAbsent, IndexRefused, IndexUnavailable
from memoryos_vectors.models import IndexedModels
from memoryos_vectors.ports import DerivedIndex

from memoryos_memoryfs.ports.index import BackendState, ClaimedChanges, IndexOutbox, NamedChange

_log = logging.getLogger(__name__)
NAMED_PAGE: Final = 20_000
"""Items that one transaction names when all of them are to be copied."""


async def copy_changes(outbox: IndexOutbox, index: DerivedIndex, models: IndexedModels, limit: int) -> int:
    """Give the number of changed items that the copy knows now, of one batch.

    What is sent is the truth of now, whatever the change was; so it can be sent
    twice, and a batch of which half arrived is sent again. While the index does
    not answer nothing is counted against an item (`IndexUnavailable`). An item
    that the index refuses is put off and at last given up; its neighbours are
    copied all the same.
    """
    done = 0
    outage: IndexUnavailable | None = None
    async with outbox.claim(limit) as claim:
        if claim.changes:
            crash_point("memoryfs.index.before_copy")
        changes = sorted(claim.changes, key=lambda change: change.tenant)
        for _, group in groupby(changes, key=lambda change: change.tenant):
            try:
                done += await _copy_group(claim, index, models, list(group))
            except IndexUnavailable as error:
                outage = error  # what was copied before is committed
                break
    if outage is not None:
        raise outage
    return done


async def _copy_group(
    claim: ClaimedChanges, index: DerivedIndex, models: IndexedModels, changes: Sequence[NamedChange]
) -> int:
    """Copy the items of one tenant together, and each by itself when that fails."""
    try:
        await _send(claim, index, models, changes)
    except IndexAbsent:
        raise
    except (IndexRefused, IndexUnavailable) as error:
        await index.exists()  # one that answers has a reason; one that does not ends this turn
        if len(changes) > 1:
            return sum([await _copy_group(claim, index, models, [change]) for change in changes])
        given_up = await claim.put_off(changes[0], error.reason)
        if given_up:
            _log.error("item given up by the copy of the index", extra={"item_id": changes[0].item_id})
        return 0
    crash_point("memoryfs.index.after_copy")
    await claim.done(changes)
    return len(changes)


async def _send(
    claim: ClaimedChanges, index: DerivedIndex, models: IndexedModels, changes: Sequence[NamedChange]
) -> None:
    tenant, ids = changes[0].tenant, [change.item_id for change in changes]
    truth = await claim.truth(tenant, ids)
    for model_id in models.dimensions:
        entries = truth.get(model_id, ())
        there = {entry.item_id for entry in entries}
        await index.replace(tenant, model_id, entries, [item_id for item_id in ids if item_id not in there])


async def keep_copy(outbox: IndexOutbox, state: BackendState, index: DerivedIndex) -> None:
    """Make the copy where it is lost or was never there; drop it where nobody brings it up to date.

    First every item is named, then the empty collections are made: a search
    between the two finds no collection, or an item pending, never nothing. A
    copy that is not fed would keep what is erased.
    """
    feeding = (await state.get()).feeding
    if await index.exists():
        if not feeding:
            await index.drop()
        return
    if not feeding:
        return
    last = await outbox.name_all(("", ""), NAMED_PAGE)
    if last is not None:
        _log.warning("the copy of the vector index is not there: made anew")
    while last is not None:
        last = await outbox.name_all(last, NAMED_PAGE)
    await index.create()
