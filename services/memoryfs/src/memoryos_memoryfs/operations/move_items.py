"""Move: items or a subtree to another place, with their ids, history and lineage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField, LimitExceeded
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_core.search_words import text_tokens

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.drafts import etag_of
from memoryos_memoryfs.domain.items import Cause, Item, State
from memoryos_memoryfs.domain.settings import Holding
from memoryos_memoryfs.errors import ItemNotFound, ItemStateForbids, NotOwner
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Revised, Work, Written

RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Move"
MOVED_MAX: Final = 20_000
"""Items in one Move: one transaction, some 20 s here; a larger subtree is moved part by part."""
_TOGETHER: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCommand:
    """A parsed Move. No ids: everything below `source` that the caller may change."""

    source: MemoryPath
    target: MemoryPath
    ids: tuple[str, ...]
    request_id: str
    body: bytes


async def move_items(parts: Parts, scope: Scope, command: MoveCommand) -> int:
    """Give the number of items that are now below `target`, each with a new revision, all or none.

    Forgotten and expired items stay where they are. An item whose readers are
    wider than the target allows loses those that are too many, and nobody gains
    any. What is written into the source meanwhile stays there. Raises
    `PathNotAllowed`, `ItemNotFound`, `NotOwner`, `NotWriter`, `QuotaExceeded`,
    `ItemStateForbids` where the target's gate is above the confidence of an item,
    `LimitExceeded` for too many items.
    """
    access.check_write(scope, command.source)
    access.check_write(scope, command.target)
    if command.source == command.target or (not command.ids and command.source.contains(command.target)):
        raise InvalidField.of("to_path", "lies within from_path")
    await parts.storage.prepare(scope, command.target, (), ())
    async with (
        recorded(parts, RPC, scope, command.source, command.ids),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(RPC, command.request_id, command.body)
        if answer is not None:
            return int(answer)
        items = await _locked(parts, work, scope, command)
        holdings = _Holdings(work)
        (await holdings.of(command.target)).check_writer(scope)
        now = parts.clock.now()
        after = [await _moved(scope, command, holdings, item, now) for item in items]
        await work.places.intern(sorted({item.path for item in after}, key=str))
        changes = [_revised(before, item) for before, item in zip(items, after, strict=True)]
        for start in range(0, len(changes), _TOGETHER):
            await work.items.revise(changes[start : start + _TOGETHER], Cause.MOVE)
            crash_point("memoryfs.move.between_parts")
        await work.journal.audit(RPC, command.target, [item.id for item in items])
        await work.journal.keep(RPC, command.request_id, str(len(items)).encode())
        crash_point("memoryfs.move.before_commit")
    return len(items)


async def _locked(parts: Parts, work: Work, scope: Scope, command: MoveCommand) -> list[Item]:
    """Give the items to move, locked, in order of id."""
    now = parts.clock.now()
    ids = sorted(set(command.ids))
    if not ids:
        found = await work.places.changeable(command.source, limit=MOVED_MAX + 1)
        if len(found) > MOVED_MAX:
            raise LimitExceeded(metadata={"limit": "moved_max", "max": str(MOVED_MAX)})
        locked = await work.items.lock(found)
        return [locked[i] for i in found if i in locked and _movable(scope, command, locked[i], now)]
    locked = await work.items.lock(ids)
    seen = {**locked, **(await work.items.find([item_id for item_id in ids if item_id not in locked]))}
    if not all(item_id in seen and _movable(scope, command, seen[item_id], now) for item_id in ids):
        raise ItemNotFound
    for item_id in ids:
        if item_id not in locked:
            raise NotOwner(metadata={"id": item_id})
    return [locked[item_id] for item_id in ids]


def _movable(scope: Scope, command: MoveCommand, item: Item, now: datetime) -> bool:
    """Tell whether the item is below the source and there for this caller."""
    return command.source.contains(item.path) and access.visible(scope, item) and not item.expired(now)


class _Holdings:
    """What holds at the places of one Move, each asked for once; those below the target may state parts, too."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[MemoryPath, Holding] = {}

    async def of(self, path: MemoryPath) -> Holding:
        if path not in self._known:
            self._known[path] = await self._work.settings.of(path)
        return self._known[path]


async def _moved(scope: Scope, command: MoveCommand, holdings: _Holdings, item: Item, now: datetime) -> Item:
    """Give the item at its new place, or raise where it may not go there."""
    segments = (*command.target.segments, *item.path.segments[len(command.source.segments) :])
    place = MemoryPath(command.target.tenant, command.target.kind, segments)
    place = MemoryPath.parse(str(place), field="to_path")
    holding = await holdings.of(place)
    holding.check_writer(scope)
    if item.state is State.ACTIVE and item.confidence < holding.gate > (await holdings.of(item.path)).gate:
        # The gate that it passed was lower: doubt does not get past this one by a move (I8).
        raise ItemStateForbids(metadata={"id": item.id, "state": item.state.name, "gate": str(holding.gate)})
    revision = item.revision + 1
    after = replace(
        item,
        payload=replace(item.payload, path=place),
        readers=holding.narrowed(item.readers),
        update_time=now,
        revision=revision,
        etag=etag_of(item.id, revision, now),
    )
    if not access.owns(scope, item) and not (access.readable(scope, after) and holding.is_writer(scope)):
        # A writer does not put what is another's where it could not bring it back from.
        raise NotOwner(metadata={"id": item.id})
    return after


def _revised(before: Item, after: Item) -> Revised:
    words = text_tokens(after.payload.content)
    return Revised(before=before, after=Written(item=after, words=words, vector=None), keep_vector=True)
