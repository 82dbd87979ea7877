"""What the operations of the namespace ask of storage. Adapters live in adapters/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.settings import Holding, PathSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What one path states itself."""

    path: MemoryPath
    settings: PathSettings
    etag: str
    update_time: datetime


class Settings(Protocol):
    """Settings of paths, in the transaction of what they decide."""

    async def of(self, path: MemoryPath) -> Holding:
        """Give what holds at `path` as committed by now, by one query. `Storage.holding` needs no transaction."""

    def expect(self, holding: Holding) -> None:
        """Let this transaction commit only if the settings of the tenant are those that `holding` was made of.

        Said after the writes that rest on it. Else the block ends with `SettingsChanged`.
        """

    async def stated(self, path: MemoryPath) -> Stated | None:
        """Give what `path` itself states; None where it never stated anything."""

    async def lock(self) -> None:
        """Wait for writers of the tenant that are under way, and let no other begin until this transaction ends."""

    async def count(self) -> int:
        """Give the number of paths of the tenant that have settings."""

    async def keep(self, stated: Stated) -> None:
        """Keep what `path` states, under the lock. A quota that it did not have begins with what is there."""

    async def below(self, path: MemoryPath) -> list[Stated]:
        """Give what `path` and the paths below it state, in the order of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Counts of what the caller may read at one place and below it."""

    active_count: int = 0
    candidate_count: int = 0
    superseded_count: int = 0
    forgotten_count: int = 0
    cold_count: int = 0
    pending_count: int = 0
    content_bytes: int = 0
    newest_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildUsage:
    """Usage of a place directly below the one asked for."""

    path: MemoryPath
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Usage of a subtree."""

    usage: Usage
    children: Sequence[ChildUsage]
    """Largest first."""
    truncated: bool
    """There are more children."""


class Places(Protocol):
    """What lies below a path, for this caller."""

    async def tally(self, path: MemoryPath, *, children_max: int) -> Tally:
        """Count what the caller may read, candidates and forgotten items of its own only, and nothing that has expired.

        `children_max` 0: no children.
        """

    async def changeable(self, path: MemoryPath, *, limit: int) -> list[str]:
        """Give the ids of items below `path` that the caller may change, in order and locked; no forgotten ones."""

    async def intern(self, paths: Sequence[MemoryPath]) -> None:
        """Give places their numbers in this transaction, all in one order."""
