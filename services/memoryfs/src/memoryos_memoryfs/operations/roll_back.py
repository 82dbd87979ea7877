"""Rollback: a subtree back to a snapshot, by new revisions, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Final, TypeVar

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import LimitExceeded
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.derivation import SourceChange
from memoryos_memoryfs.domain.items import Cause, Item, State, Tier
from memoryos_memoryfs.domain.points import Earlier, Mark, as_it_was, before_last, given_back, to_come_back_to, wider
from memoryos_memoryfs.errors import PathNotAllowed, WideningForbidden
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.operations.revert_item import again
from memoryos_memoryfs.operations.take_snapshot import found_snapshot
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.history import Snapshot
from memoryos_memoryfs.ports.storage import Revised, Work

RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Rollback"
ITEMS_MAX: Final = 20_000
"""Items that one rollback changes: it is one transaction, some 10 s long at this size. More: a smaller subtree."""
UNDO_CHANNEL: Final = "undo"
_BATCH: Final = 250
"""Items in memory at once; between two batches other calls are served."""
_AUDITED_MAX: Final = 10_000
"""Names in one audit row."""

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackCommand:
    """A parsed Rollback. `body` is the request as sent, for comparing retries."""

    path: MemoryPath
    snapshot_id: str
    actor: str
    session_id: str
    changed_from: datetime | None
    changed_to: datetime | None
    preview: bool
    request_id: str
    body: bytes

    @property
    def whole(self) -> bool:
        """Tell whether every change is one of those to undo."""
        return not (self.actor or self.session_id or self.changed_from or self.changed_to)

    def undoes(self, mark: Mark) -> bool:
        """Tell whether a change is one of those to undo."""
        start, end = self.changed_from, self.changed_to
        return (
            (not self.actor or mark.actor == self.actor)
            and (start is None or mark.at >= start)
            and (end is None or mark.at < end)
        )


@dataclass(slots=True)
class RolledBack:
    """What became of the items."""

    reverted_count: int = 0
    forgotten_count: int = 0
    restored_count: int = 0
    erased_count: int = 0
    undo_snapshot_id: str = ""


class _PreviewedError(Exception):
    """Ends the transaction of a preview: everything was tried and nothing is kept."""


async def roll_back(parts: Parts, scope: Scope, command: RollbackCommand) -> RolledBack:
    """Give what became of the items of a subtree, which equal the snapshot now in all but number, etag and time.

    Items made since are forgotten, those forgotten since are back, changed ones
    take their earlier values as a new revision, with their vectors. With an
    actor, a session or a window only changes that match are undone, newest
    first, and only as far as nothing else was built on them. Erased items stay
    erased, and what was made from one that is forgotten or erased is what it was
    but for being withdrawn. One transaction: all or nothing, `LimitExceeded` above `ITEMS_MAX`.

    A user rolls back what is theirs to change, without widening any item
    (`WideningForbidden`); a tenant-admin rolls back every item, reading none.
    A snapshot taken right before undoes the rollback. A preview does all of it
    and keeps nothing.
    """
    access.check_write(scope, command.path)
    await parts.storage.prepare(scope, command.path, [], [])
    whole = access.WIDE_ROLE in scope.roles
    result = RolledBack()
    try:
        async with (
            recorded(parts, RPC, scope, command.path, [command.snapshot_id]),
            parts.storage.transaction(scope, whole=whole) as work,
        ):
            if not command.preview:
                answer = await work.journal.replay(RPC, command.request_id, command.body)
                if answer is not None:
                    return RolledBack(**json.loads(answer))
            snapshot = await found_snapshot(work, scope, command.snapshot_id, command.path)
            touched = await work.history.touched(command.path, snapshot.point, limit=ITEMS_MAX + 1)
            if len(touched) > ITEMS_MAX:
                raise LimitExceeded(
                    f"More than {ITEMS_MAX} items have changed since the snapshot; roll back smaller subtrees.",
                    metadata={"limit": "rollback_items_max", "max": str(ITEMS_MAX)},
                )
            if not command.preview:
                undo, _ = await work.snapshots.take(parts.ids.new("snap"), command.path, "", UNDO_CHANNEL)
                result.undo_snapshot_id = undo.id
            changed = await _Rollback(parts, work, scope, command, result).run(snapshot, touched)
            if command.preview:
                raise _PreviewedError
            for ids in _batches(sorted({snapshot.id, *changed}), _AUDITED_MAX):
                await work.journal.audit(RPC, command.path, ids)
            await work.journal.keep(RPC, command.request_id, json.dumps(asdict(result)).encode())
            crash_point("memoryfs.rollback.before_commit")
    except _PreviewedError:
        await parts.trail.record(RPC, scope, command.path, [command.snapshot_id])
    return result


@dataclass(frozen=True, slots=True)
class _Back:
    """One item on its way back."""

    before: Item
    earlier: Earlier


class _Rollback:
    """One rollback inside its transaction."""

    def __init__(self, parts: Parts, work: Work, scope: Scope, command: RollbackCommand, result: RolledBack) -> None:
        self._parts = parts
        self._work = work
        self._scope = scope
        self._command = command
        self._result = result
        self._whole = access.WIDE_ROLE in scope.roles
        self._now = parts.clock.now()
        self._changed: list[str] = []
        self._parents: frozenset[str] = frozenset()
        self._changes: list[SourceChange] = []
        """Of items from which something was made."""
        self._withdrawn: list[str] = []
        """Made from others, and gone otherwise than at the snapshot, or not there then."""

    async def run(self, snapshot: Snapshot, touched: Sequence[str]) -> list[str]:
        """Bring everything back; give the names of the items that changed."""
        # Locked first, all of them in order of id, as every change does; what they are is read after that.
        self._parents = await self._work.derivations.lock_all(touched)
        derived: list[_Back] = []
        for ids in _batches(touched, _BATCH):
            locked = await self._work.items.lock(ids)
            marks = await self._work.history.marks(sorted(locked), snapshot.point)
            plain: list[_Back] = []
            for item_id in sorted(locked):
                back = self._planned(locked[item_id], marks.get(item_id, []))
                if back is not None:
                    (derived if back.before.derived_from else plain).append(back)
            await self._apply(plain)
        await self._apply_derived(derived)
        # What was made elsewhere from an item that is other again follows it. What is as it was at the point is in line
        # with its sources of then; where only some changes are undone it may outreach them as they are now.
        same, whole = frozenset(self._changed), self._command.whole
        await self._work.derivations.follow(
            self._changes,
            unless=same if whole else frozenset(),
            unflagged=same,
            point=snapshot.point if whole else "",
        )
        await self._work.derivations.release(self._withdrawn)
        self._result.erased_count = await self._work.snapshots.erased_count(snapshot, self._command.path)
        return self._changed

    def _note(self, before: Item, after: Item | None) -> None:
        """Keep that an item changed; `after` None: it is forgotten now."""
        self._changed.append(before.id)
        if before.id in self._parents:
            self._changes.append(SourceChange(before=before, after=after))

    def _planned(self, item: Item, marks: Sequence[Mark]) -> _Back | None:
        """Give what an item goes back to; None where it is not to be touched."""
        session = self._command.session_id
        if session and item.payload.source.session_id != session:
            return None
        if not self._whole and not (access.readable(self._scope, item) and self._scope.may_write(item.path)):
            return None
        earlier = before_last(marks, self._command.undoes) if marks else None
        return None if earlier is None else _Back(item, earlier)

    async def _apply_derived(self, backs: Sequence[_Back]) -> None:
        """Bring back what was made from others, sources first; one without its source is forgotten, whatever it was."""
        rest = {back.before.id: back for back in backs}
        while rest:
            turn = [back for back in rest.values() if not any(source in rest for source in back.before.derived_from)]
            turn = turn or list(rest.values())  # imported ones may name each other
            held = await self._work.derivations.held_back([back.before for back in turn])
            self._withdrawn += held
            await self._apply(
                [
                    replace(back, earlier=replace(back.earlier, withheld=True)) if back.before.id in held else back
                    for back in turn
                ]
            )
            for back in turn:
                del rest[back.before.id]

    async def _apply(self, backs: Sequence[_Back]) -> None:
        for batch in _batches(backs, _BATCH):
            same = [back for back in batch if back.earlier.revision in (0, back.before.revision)]
            await self._move(same)
            await self._revise([back for back in batch if back.earlier.revision not in (0, back.before.revision)])

    async def _move(self, backs: Sequence[_Back]) -> None:
        """Forget what was not there, and change the state of what is still the same revision."""
        gone, back_again = [], []
        for back in backs:
            earlier = back.earlier
            forgotten = earlier.revision == 0 or earlier.withheld or earlier.state is State.FORGOTTEN
            if forgotten and back.before.state is not State.FORGOTTEN:
                gone.append(back.before)
                if earlier.revision == 0 and back.before.derived_from:
                    self._withdrawn.append(back.before.id)
            elif not forgotten and back.before.state is State.FORGOTTEN:
                back_again.append(back.before)
        if gone:
            await self._work.items.set_state(gone, State.FORGOTTEN, Cause.ROLLBACK)
            for item in gone:
                self._note(item, None)
            self._result.forgotten_count += len(gone)
        if back_again:
            await self._work.items.set_state(back_again, State.ACTIVE, Cause.ROLLBACK)
            for item in back_again:
                self._note(item, item)
            self._result.restored_count += len(back_again)
        await self._move_tiers(backs, frozenset(item.id for item in (*gone, *back_again)))

    async def _move_tiers(self, backs: Sequence[_Back], counted: frozenset[str]) -> None:
        """Put what has become cold, or hot again, back into the tier it was in."""
        for tier in Tier:
            moved = [b.before for b in backs if b.earlier.other_tier and b.before.tier is not tier]
            if moved:
                await self._work.history.move_tier([item.id for item in moved], tier)
                alone = [item for item in moved if item.id not in counted]
                self._changed += [item.id for item in alone]
                self._result.reverted_count += len(alone)

    async def _revise(self, backs: Sequence[_Back]) -> None:
        """Make new revisions that equal earlier ones."""
        named = {back.before.id: back.earlier.revision for back in backs}
        formers = await self._work.history.revisions(named)
        vectors = await self._work.history.vectors(named)
        revised: list[Revised] = []
        for back in backs:
            former = formers.get(back.before.id)
            if former is None:
                continue  # its key is destroyed
            after = given_back(back.before, as_it_was(back.earlier, former.item), self._now)
            self._check(back.before, after)
            change = again(self._parts, back.before, after, vectors.get(after.id))
            revised.append(replace(change, forgotten_from=to_come_back_to(back.earlier, former)))
            self._count(back.before, after)
        await self._work.items.revise(revised, Cause.ROLLBACK)
        for change in revised:
            gone = change.after.item.state is State.FORGOTTEN
            self._note(change.before, None if gone else change.after.item)

    def _count(self, before: Item, after: Item) -> None:
        was, away = before.state is State.FORGOTTEN, after.state is State.FORGOTTEN
        if was is away:
            self._result.reverted_count += 1
        elif away:
            self._result.forgotten_count += 1
        else:
            self._result.restored_count += 1

    def _check(self, before: Item, after: Item) -> None:
        """Refuse to open an item to more readers, or to write where the caller's token does not reach."""
        if self._whole:
            return
        if wider(before, after):
            raise WideningForbidden(metadata={"id": before.id})
        if not self._scope.may_write(after.path):
            raise PathNotAllowed


def _batches(values: Sequence[V], size: int) -> Iterator[Sequence[V]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
