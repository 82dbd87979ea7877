"""What the operations of bindings ask of storage. Adapters live in adapters/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from memoryos_core.paths import MemoryPath

from memoryos_memoryfs.domain.bindings import Binding, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBinding:
    """What is attached to a target, and for how long."""

    target: Target
    read_paths: tuple[MemoryPath, ...]
    write_paths: tuple[MemoryPath, ...]
    owns_working_memory: bool
    ttl: timedelta


class Bindings(Protocol):
    """The bindings of one user, whoever of its agents calls."""

    async def keep(self, new_id: str, new: NewBinding) -> Binding:
        """Keep a binding; that of the same target is replaced and keeps its name. The database clock counts."""

    async def lock(self, binding_id: str) -> Binding | None:
        """Give a binding, locked until the transaction ends."""

    async def live(self, binding_id: str) -> bool:
        """Tell whether its time is not over, by the database clock."""

    async def count(self) -> int:
        """Give the number of bindings."""

    async def newest(self, targets: Sequence[Target], *, before: str, limit: int) -> list[Binding]:
        """Give those that hold now, newest first, after the one named `before`; no targets: of any."""

    async def working_ids(self, binding: Binding) -> list[str]:
        """Give the ids of working items that came from its target; to be read again."""

    async def drop_due(self, binding_id: str) -> None:
        """Let nobody look at a binding any more that is gone."""

    async def end(self, binding: Binding, forget_time: datetime | None) -> None:
        """Note that its working memory is gone. The row goes at `forget_time`; None: now."""


@dataclass(frozen=True, slots=True)
class DueBinding:
    """A binding that has to be looked at, and the user as whom."""

    tenant: str
    id: str
    owner: str


class BindingQueue(Protocol):
    """The content-free list of bindings by the time at which they end."""

    async def due(self, limit: int) -> list[DueBinding]:
        """Give those whose time is over, oldest first, across tenants; names only."""

    async def put_off(self, row: DueBinding) -> None:
        """Look at it again in a minute."""
