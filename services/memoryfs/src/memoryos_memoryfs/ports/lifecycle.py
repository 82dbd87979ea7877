"""What the operations of the lifecycle ask of storage. Adapters live in adapters/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.evidence import SourceKey
from memoryos_memoryfs.domain.filters import Filter
from memoryos_memoryfs.domain.items import EventKey, Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """Items that may say the same as what was asked for, and items of the caller about the same events."""

    same: Mapping[str, Sequence[str]]
    """Ids by signature; anyone's, to be read again."""
    events: Mapping[EventKey, Sequence[str]]
    """Ids by event key, active and superseded ones."""

    @property
    def ids(self) -> frozenset[str]:
        """Give every id once."""
        return frozenset().union(*self.same.values(), *self.events.values())


class Claims(Protocol):
    """Where re-statements, evidence and events are looked up, in the transaction of what they lead to."""

    async def meet(self, signatures: Sequence[str], events: Sequence[EventKey]) -> Met:
        """Give who says the same or speaks of the same events, as committed by now.

        Whoever asks for one of them waits until this transaction ends: of several
        callers that say the same at once the later ones find what the first wrote.
        Asked for in one call, and before any row is locked: no two lock each other out.
        """

    async def note(self, signatures: Mapping[str, str]) -> None:
        """Keep what items say: signature by id. Written together with the commit."""

    async def corroborates(self, item_id: str, own: frozenset[SourceKey], offered: frozenset[SourceKey]) -> bool:
        """Tell whether the offered source is another one than the item's own and all that were counted for it."""

    async def count_in(self, item_id: str, keys: frozenset[SourceKey]) -> None:
        """Keep that these sources were counted for the item."""

    async def keep_lives(self, expire_times: Mapping[str, datetime]) -> None:
        """Keep when candidates are to end once they are promoted."""

    async def take_lives(self, ids: Sequence[str]) -> Mapping[str, datetime]:
        """Give those ends and forget them."""

    async def keep_reason(self, item: Item, reason: str) -> None:
        """Keep why this revision was made, sealed as the item is."""

    async def used_since(self, ids: Sequence[str], since: datetime) -> frozenset[str]:
        """Give those of `ids` that an answer of Read held since then."""


class OwnItems(Protocol):
    """What the caller owns, for changes of many items at once."""

    async def view(self) -> str:
        """Give a name for what is committed now, under which `matching` sees it later."""

    async def matching(self, path: MemoryPath, where: Filter, view: str) -> list[tuple[str, str]]:
        """Give id and etag of every item of the caller below `path` that meets the filter, by id.

        Active, superseded and candidates, hot and cold; only in revisions that `view` saw.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepRun:
    """What the upkeep of one tenant did."""

    duration_s: float
    cold_count: int
    expired_count: int
    evicted_count: int
    reason: str
    """Why it failed; empty when it did not."""


class LifecycleUpkeep(Protocol):
    """Work that no caller asks for. Queues hold names only; every change is made in a transaction of one tenant."""

    async def enlist(self) -> None:
        """Make sure that every tenant with items is in the queue."""

    async def claim(self, every_s: float) -> str | None:
        """Give a tenant that is due, None without one; it is due again `every_s` later."""

    async def end(self, tenant: str, run: UpkeepRun) -> None:
        """Keep what a run did, for operators to see."""

    async def cool(self, tenant: str, now: datetime) -> int:
        """Make items cold that were not used within the hot window of their path; give their number, 0 at the end."""

    async def expire(self, tenant: str, now: datetime) -> int:
        """Forget items older than the retention of their path (Cause.EXPIRE); give their number, 0 at the end."""

    async def budgets(self, tenant: str) -> Sequence[tuple[bytes, int]]:
        """Give the subtrees with a budget, as keys of paths, and how many active items each keeps."""

    async def evict(self, tenant: str, key: bytes, keep_max: int, now: datetime) -> int:
        """Forget what a subtree holds beyond its budget (Cause.EVICT); give the number, 0 at the end.

        The least important go first, of these the least used, of these the oldest; pinned items last.
        """
