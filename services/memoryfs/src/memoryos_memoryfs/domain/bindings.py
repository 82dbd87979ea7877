"""Bindings: the places of a session, a task or an agent. They bound its calls and never grant anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from memoryos_core.errors import NotAllowed
from memoryos_core.paths import Kind, MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain.items import Item, State

TTL_DEFAULT: Final = timedelta(days=1)
TTL_MAX: Final = timedelta(days=30)
BINDINGS_MAX: Final = 10_000
"""Bindings of one user at once."""
KEPT_AFTER: Final = timedelta(days=30)
"""How long a task stays bounded after its time: longer than any token of it lives."""


class TargetKind(IntEnum):
    """To what paths can be attached."""

    SESSION = 1
    TASK = 2
    AGENT = 3


@dataclass(frozen=True, slots=True)
class Target:
    """To what paths are attached; the names are those in the tokens of its user."""

    kind: TargetKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Paths attached to a target. No path of one sort: no reads, or no writes."""

    id: str
    target: Target
    read_paths: tuple[MemoryPath, ...]
    write_paths: tuple[MemoryPath, ...]
    owns_working_memory: bool
    create_time: datetime
    expire_time: datetime

    def holds_working(self, item: Item, owner: str) -> bool:
        """Tell whether an item is working memory that goes with this binding."""
        return (
            self.owns_working_memory
            and item.state is not State.FORGOTTEN
            and item.owner == owner
            and item.path.kind is Kind.WORKING
            and self.target in targets_of_item(item)
            and any(path.contains(item.path) for path in self.write_paths)
        )


def targets_of(scope: Scope) -> tuple[Target, ...]:
    """Give everything whose binding bounds this call: agents before it in the chain, too."""
    found = [Target(TargetKind.AGENT, name) for name in dict.fromkeys(scope.chain)]
    if scope.session_id:
        found.append(Target(TargetKind.SESSION, scope.session_id))
    if scope.task_id:
        found.append(Target(TargetKind.TASK, scope.task_id))
    return tuple(found)


def targets_of_item(item: Item) -> tuple[Target, ...]:
    """Give the task and the session that an item came from."""
    source = item.payload.source
    found = []
    if source.session_id:
        found.append(Target(TargetKind.SESSION, source.session_id))
    if source.task_id:
        found.append(Target(TargetKind.TASK, source.task_id))
    return tuple(found)


def bounded(scope: Scope, ceilings: Iterable[tuple[tuple[MemoryPath, ...], tuple[MemoryPath, ...]]]) -> Scope:
    """Give the scope below every one of the ceilings (read and write paths)."""
    read, write = scope.read_paths, scope.write_paths
    for readable, writable in ceilings:
        read, write = _meet(read, readable), _meet(write, writable)
    return replace(scope, read_paths=read, write_paths=write)


def _meet(one: tuple[MemoryPath, ...] | None, other: tuple[MemoryPath, ...]) -> tuple[MemoryPath, ...]:
    """Give the places that lie below both."""
    if one is None:
        return other
    found = [a if b.contains(a) else b for a in one for b in other if a.contains(b) or b.contains(a)]
    return tuple(dict.fromkeys(found))


def check_may_bind(scope: Scope, target: Target, *, on_behalf: bool) -> None:
    """Raise NotAllowed where the caller would loosen what bounds itself.

    A user binds its own sessions, tasks and agents; the harness does so on its behalf. An agent, or
    whoever works inside a task, binds nothing: it could widen or drop its own ceiling, or another's.
    """
    if on_behalf:
        return
    if scope.chain or scope.task_id or target in targets_of(scope):
        raise NotAllowed
