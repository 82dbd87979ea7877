"""Forget and Restore: out of every read path at once, and back as it was."""

from __future__ import annotations

from dataclasses import dataclass

from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.items import Cause, Item, State
from memoryos_memoryfs.errors import ItemNotFound, ItemStateForbids, NotOwner
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Work

_FORGET = "memoryos.memoryfs.v1.MemoryFS/Forget"
_RESTORE = "memoryos.memoryfs.v1.MemoryFS/Restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedItems:
    """A parsed Forget or Restore. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    ids: tuple[str, ...]
    request_id: str
    body: bytes


async def forget_items(parts: Parts, scope: Scope, command: NamedItems) -> int:
    """Give the number of items that no read path serves any more.

    Nothing is forgotten when any of them is not visible below the path
    (`ItemNotFound`; a forgotten one is not) or not the caller's (`NotOwner`).
    """
    access.check_write(scope, command.path)
    async with (
        recorded(parts, _FORGET, scope, command.path, command.ids),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(_FORGET, command.request_id, command.body)
        if answer is not None:
            return int(answer)
        items = await _locked(parts, work, scope, command)
        if any(item.state is State.FORGOTTEN for item in items):
            raise ItemNotFound
        await work.items.set_state(items, State.FORGOTTEN, Cause.FORGET)
        return await _finish(work, _FORGET, command, len(items))


async def restore_items(parts: Parts, scope: Scope, command: NamedItems) -> int:
    """Give the number of forgotten items that are back as they were, in state, revision and index.

    What one was merged into or replaced by may be forgotten now: then it is active. One that was made from
    others replaces these again.

    Nothing is restored when any of them is not there (`ItemNotFound`), not the
    caller's (`NotOwner`) or not forgotten (`ItemStateForbids`).
    """
    access.check_write(scope, command.path)
    async with (
        recorded(parts, _RESTORE, scope, command.path, command.ids),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(_RESTORE, command.request_id, command.body)
        if answer is not None:
            return int(answer)
        items = await _locked(parts, work, scope, command)
        for item in items:
            if item.state is not State.FORGOTTEN:
                raise ItemStateForbids(metadata={"id": item.id, "state": item.state.name})
        for item_id in sorted(await work.derivations.held_back(items)):
            raise ItemStateForbids("A source of the item is forgotten or erased.", metadata={"id": item_id})
        await work.items.set_state(items, State.ACTIVE, Cause.RESTORE)
        await work.derivations.take_places(items)
        return await _finish(work, _RESTORE, command, len(items))


async def _locked(parts: Parts, work: Work, scope: Scope, command: NamedItems) -> list[Item]:
    """Give the named items, each once, locked; all must be readable, below the path and the caller's."""
    ids = sorted(set(command.ids))
    locked = await work.items.lock(ids)
    missing = [item_id for item_id in ids if item_id not in locked]
    seen = {**locked, **(await work.items.find(missing))}
    now = parts.clock.now()
    for item_id in ids:
        item = seen.get(item_id)
        if item is None or not _named(scope, command.path, item) or item.expired(now):
            raise ItemNotFound
    if missing:
        raise NotOwner(metadata={"id": missing[0]})
    return [locked[item_id] for item_id in ids]


def _named(scope: Scope, path: MemoryPath, item: Item) -> bool:
    """Tell whether the item is below the path and there for this caller: what is not active, for its owner only."""
    hidden = item.state in (State.FORGOTTEN, State.CANDIDATE) and not access.owns(scope, item)
    return path.contains(item.path) and access.readable(scope, item) and not hidden


async def _finish(work: Work, rpc: str, command: NamedItems, count: int) -> int:
    await work.journal.audit(rpc, command.path, sorted(set(command.ids)))
    await work.journal.keep(rpc, command.request_id, str(count).encode())
    return count
