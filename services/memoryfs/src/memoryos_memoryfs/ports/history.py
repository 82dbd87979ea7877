"""What history, lineage and snapshots ask of storage. Adapters live in adapters/."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memoryos_core.paths import MemoryPath
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain.changes import Change
from memoryos_memoryfs.domain.derivation import SourceChange
from memoryos_memoryfs.domain.items import Item, Tier
from memoryos_memoryfs.domain.points import Former, Mark

Position = tuple[int, datetime | None]
"""Where a page of changes ended: a revision, and which change of its state; None: its making."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A named point in the history of a subtree."""

    id: str
    path: MemoryPath
    title: str
    channel: str
    point: str
    """A pg_snapshot."""
    create_time: datetime
    actor: str
    owner: str
    whole: bool
    """Made by a tenant-admin: `counts` are of every owner, else of its maker."""
    counts: Mapping[int, int]
    """Items by number of place, forgotten ones too."""


class History(Protocol):
    """What became of items, as far as the caller may read each of its revisions."""

    async def changes(self, item_id: str, before: Position | None, limit: int) -> list[Change]:
        """Give changes of an item, newest first."""

    async def revisions(self, named: Mapping[str, int]) -> dict[str, Former]:
        """Give one replaced revision of each item, as it was when it was replaced."""

    async def vectors(self, named: Mapping[str, int]) -> dict[str, Vector]:
        """Give the kept vectors of replaced revisions."""

    async def touched(self, path: MemoryPath, point: str, *, after: str = "", limit: int) -> list[str]:
        """Give items at or below `path`, now or at the point, that were made or changed since it, by id."""

    async def marks(self, ids: Sequence[str], point: str) -> dict[str, list[Mark]]:
        """Give what became of the items since the point, in order."""

    async def move_tier(self, ids: Sequence[str], tier: Tier) -> None:
        """Put locked items of the other tier into this one, as the upkeep of tiers does; it makes no revision."""

    async def around(self, items: Sequence[Item], limit: int) -> list[Item]:
        """Give items that the given ones were made from or replaced by, or the other way round."""


class Snapshots(Protocol):
    """Named points; a caller sees its own, a tenant-admin all."""

    async def take(self, snapshot_id: str, path: MemoryPath, title: str, channel: str) -> tuple[Snapshot, list[str]]:
        """Keep the present as a point; give it, and the names of those beyond the newest five that were dropped.

        What this transaction itself changes, before or after, is not part of it.
        """

    async def find(self, snapshot_id: str) -> Snapshot | None:
        """Give one by name."""

    async def page(
        self, path: MemoryPath, channel: str, *, before: tuple[datetime, str] | None, limit: int
    ) -> list[Snapshot]:
        """Give those of a path, of paths below it and of those that hold it, newest first."""

    async def erased_count(self, snapshot: Snapshot, path: MemoryPath) -> int:
        """Give how many items that were at or below `path` at the point are erased."""


class Derivations(Protocol):
    """What was made from items, whoever may read it: for following a change, never for an answer."""

    async def follow(
        self,
        changes: Sequence[SourceChange],
        *,
        unless: frozenset[str] = frozenset(),
        unflagged: frozenset[str] = frozenset(),
        point: str = "",
    ) -> None:
        """Let everything that was made from changed items follow, but for those in `unless`.

        Those in `unflagged` follow in who reads them only: that a source says something else is not held against them.
        One of which `point`, if given, saw the very revision that it has goes when a source is gone, and follows in
        nothing else.

        What is withdrawn so releases its other sources (`release`).
        `revise` and `set_state` do so by themselves, except for Cause.ROLLBACK.
        """

    async def release(self, gone: Collection[str], *, but: frozenset[str] = frozenset()) -> None:
        """Let what was merged into items that are gone, and is still there, stand for itself again.

        Not those in `but`: they go as well.
        """

    async def take_places(self, back: Sequence[Item]) -> None:
        """Let restored items stand where they stood: those made from others replace these again.

        One that a forgotten item had replaced stands for itself.
        """

    async def lock_all(self, ids: Sequence[str]) -> frozenset[str]:
        """Lock many items and everything made from them, in order of id; give those from which something was made.

        For a change in several steps: `lock` of a part then waits for nobody.
        """

    async def held_back(self, items: Sequence[Item]) -> frozenset[str]:
        """Give those of the items that may not come back: a source of theirs is forgotten, or was erased."""
