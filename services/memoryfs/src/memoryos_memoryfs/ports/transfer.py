"""What Watch, Export and Import ask of storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from memoryos_core.feed import FeedPage
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_vectors.ports import Vector

from memoryos_memoryfs.domain.changes import Change
from memoryos_memoryfs.domain.items import Item


class FeedPosition(NamedTuple):
    """Behind an event, in the order in which transactions began and, within one, by item."""

    xid: int
    item_id: str = ""
    rank: int = 0
    number: int = 0


FIRST = FeedPosition(0)


class ChangeFeed(Protocol):
    """Changes of a subtree as one caller may see them."""

    async def now(self, scope: Scope) -> FeedPosition:
        """Give the position behind everything that is committed and in order."""

    async def after(
        self, scope: Scope, path: MemoryPath, position: FeedPosition, limit: int
    ) -> FeedPage[tuple[FeedPosition, Change], FeedPosition]:
        """Give the changes after `position`, oldest first.

        A change waits until no transaction is running that began before its
        own, so none can appear behind a position that was handed out. One of
        an item that the caller may not read any more comes without the item.
        """


@dataclass(frozen=True, slots=True)
class Point:
    """A moment of the store, and what a caller could read below a path then and now."""

    snapshot: str
    ids: tuple[str, ...]
    """In the order in which they are to be read."""


@dataclass(frozen=True, slots=True)
class PastItem:
    """A revision with its vector, where it has one."""

    item: Item
    vector: Vector | None


class Past(Protocol):
    """The store as it was at a point."""

    async def point(self, scope: Scope, path: MemoryPath, *, by_user: bool) -> Point:
        """Give this moment; the ids by id, or by user and kind."""

    async def items(
        self, scope: Scope, point: Point, ids: Sequence[str], *, vectors: bool, history: bool
    ) -> list[PastItem]:
        """Give the named items as they were at the point, in the order of `ids`, with `history` after their earlier
        revisions, oldest first. One that has been forgotten or closed to the caller since is not given."""


class PastRows(Protocol):
    """Earlier revisions that an import brings along."""

    async def add(self, revisions: Sequence[tuple[PastItem, datetime]]) -> None:
        """Keep revisions of items that this transaction makes, each with the time at which the next one replaced it."""
