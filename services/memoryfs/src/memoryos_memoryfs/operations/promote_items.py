"""Promote and Dispute: through the gate and back, by evidence or by a person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access, conflicts, evidence
from memoryos_memoryfs.domain.items import Cause, Flag, Item, Source, State
from memoryos_memoryfs.errors import EvidenceNotIndependent, ItemNotFound, ItemStateForbids, NotOwner
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.operations.settle_entries import life_of, revised_item
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Work

_PROMOTE: Final = "memoryos.memoryfs.v1.MemoryFS/Promote"
_DISPUTE: Final = "memoryos.memoryfs.v1.MemoryFS/Dispute"
_VOUCHED_CONFIDENCE: Final = 0.8
"""What an independent source adds where it states no confidence of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedItem:
    """A parsed Promote or Dispute. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    id: str
    reason: str
    request_id: str
    body: bytes
    evidence: Source | None = None


async def promote_item(parts: Parts, scope: Scope, command: JudgedItem) -> Item:
    """Give the candidate as an active item.

    Without evidence the caller has to be a person acting for itself; an agent's word is none
    (`EvidenceNotIndependent`), nor is a source that was counted before. Text that reads like an
    instruction needs a person in any case. Its owner may, or a reader who is a writer of the path.
    An item about an event takes its place among those that were there.
    """
    access.check_write(scope, command.path)
    async with (
        recorded(parts, _PROMOTE, scope, command.path, [command.id]),
        parts.storage.transaction(scope) as work,
    ):
        seen = await _seen(parts, work, scope, command)
        event = seen.payload.event_key
        met = await work.claims.meet([], [event] if event else [])
        answer = await work.journal.replay(_PROMOTE, command.request_id, command.body)
        if answer is not None:
            return await _as_answered(work, command)
        locked = await work.items.lock(sorted({command.id, *met.ids}))
        before = _owned(locked, command.id)
        _check_state(before, State.CANDIDATE)
        now = parts.clock.now()
        after = await _let_through(work, scope, command, before)
        after = replace(after, expire_time=await life_of(work, before))
        chain = [locked[item_id] for item_id in met.ids if item_id in locked and item_id != before.id]
        after, changed = conflicts.settle(after, [one for one in chain if conflicts.same_place(after, one)])
        after = evidence.next_revision(before, after, now)
        await work.items.revise([revised_item(before, after)], Cause.PROMOTE)
        replaced = [(locked[one.id], evidence.next_revision(locked[one.id], one, now)) for one in changed]
        await work.items.revise([revised_item(old, new) for old, new in replaced], Cause.SUPERSEDE)
        return await _finish(work, _PROMOTE, command, after, [one.id for one in changed])


async def dispute_item(parts: Parts, scope: Scope, command: JudgedItem) -> Item:
    """Give the active item as a candidate again: flagged, out of Read at once, gone in a day unless promoted.

    Its owner may, or an agent that acts for it; others get `NotOwner`.
    """
    access.check_write(scope, command.path)
    async with (
        recorded(parts, _DISPUTE, scope, command.path, [command.id]),
        parts.storage.transaction(scope) as work,
    ):
        answer = await work.journal.replay(_DISPUTE, command.request_id, command.body)
        if answer is not None:
            return await _as_answered(work, command)
        await _seen(parts, work, scope, command)
        before = _owned(await work.items.lock([command.id]), command.id)
        _check_state(before, State.ACTIVE)
        now = parts.clock.now()
        after = evidence.next_revision(before, evidence.disputed(before, now), now)
        await work.items.revise([revised_item(before, after)], Cause.DISPUTE)
        if before.expire_time is not None and before.expire_time != after.expire_time:
            await work.claims.keep_lives({before.id: before.expire_time})
        return await _finish(work, _DISPUTE, command, after, [])


async def _let_through(work: Work, scope: Scope, command: JudgedItem, item: Item) -> Item:
    """Give the candidate as what it becomes; raises where neither evidence nor a person stands for it."""
    person = not scope.chain
    threshold = (await work.settings.of(item.path)).gate
    if Flag.INSTRUCTION_LIKE in item.flags and not person:
        raise EvidenceNotIndependent(metadata={"id": item.id})
    if command.evidence is None:
        if not person:
            raise EvidenceNotIndependent(metadata={"id": item.id})
        return evidence.vouched(item, threshold)
    offered = evidence.source_keys(command.evidence)
    own = evidence.source_keys(item.payload.source)
    if not await work.claims.corroborates(item.id, own, offered):
        raise EvidenceNotIndependent(metadata={"id": item.id})
    await work.claims.count_in(item.id, offered)
    return evidence.promoted(evidence.corroborated(item, _VOUCHED_CONFIDENCE, threshold), threshold)


async def _seen(parts: Parts, work: Work, scope: Scope, command: JudgedItem) -> Item:
    """Give the item as the caller sees it below the path; a candidate is there for its owner and for writers."""
    item = (await work.items.find([command.id])).get(command.id)
    if item is None or not command.path.contains(item.path) or item.expired(parts.clock.now()):
        raise ItemNotFound
    if access.visible(scope, item):
        return item
    reviewed = item.state is State.CANDIDATE and access.readable(scope, item)
    if not reviewed or not (await work.settings.of(item.path)).is_writer(scope):
        raise ItemNotFound
    return item


def _owned(locked: dict[str, Item], item_id: str) -> Item:
    if item_id not in locked:
        raise NotOwner(metadata={"id": item_id})
    return locked[item_id]


def _check_state(item: Item, needed: State) -> None:
    if item.state is not needed:
        raise ItemStateForbids(metadata={"id": item.id, "state": item.state.name})


async def _as_answered(work: Work, command: JudgedItem) -> Item:
    """Give the item as it is now: the change was made by the call that is repeated."""
    item = (await work.items.find([command.id])).get(command.id)
    if item is None:
        raise ItemNotFound
    work.seen.gives([item])
    return item


async def _finish(work: Work, rpc: str, command: JudgedItem, item: Item, further: list[str]) -> Item:
    if command.reason:
        await work.claims.keep_reason(item, command.reason)
    await work.journal.audit(rpc, command.path, [item.id, *further])
    await work.journal.keep(rpc, command.request_id, str(item.revision).encode())
    work.seen.gives([item])
    crash_point("memoryfs.judge.before_commit")
    return item
