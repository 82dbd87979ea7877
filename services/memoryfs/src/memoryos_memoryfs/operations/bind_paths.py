"""Bind, Unbind and ListBindings: a ceiling for a session, a task or an agent, and working memory that goes with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import InvalidField, InvalidPageToken, LimitExceeded
from memoryos_core.paging import PageTokens
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.bindings import (
    BINDINGS_MAX,
    KEPT_AFTER,
    TTL_MAX,
    Binding,
    Target,
    TargetKind,
    check_may_bind,
)
from memoryos_memoryfs.domain.items import Cause, State
from memoryos_memoryfs.errors import PathNotAllowed, ResourceNotFound
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.bindings import BindingQueue, DueBinding, NewBinding
from memoryos_memoryfs.ports.storage import Work

_BIND: Final = "memoryos.memoryfs.v1.MemoryFS/Bind"
_UNBIND: Final = "memoryos.memoryfs.v1.MemoryFS/Unbind"
_LIST: Final = "memoryos.memoryfs.v1.MemoryFS/ListBindings"
_EXPIRE: Final = "memoryos.memoryfs.v1.MemoryFS/ExpireBinding"
"""Of the upkeep, for the audit: nobody calls it."""
PAGE_SIZE_DEFAULT: Final = 50
_TOGETHER: Final = 500
_CLEARANCE_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class BindCommand:
    """A parsed Bind. `on_behalf`: the harness calls, for a task of its own."""

    new: NewBinding
    on_behalf: bool
    request_id: str
    body: bytes


async def bind_paths(parts: Parts, scope: Scope, command: BindCommand) -> Binding:
    """Give the binding; that of the same target is replaced, and its time begins anew.

    From the next call on, whoever calls for this user with the session, the task or the agent in its
    token reads and writes within these paths only. Raises `NotAllowed`, `PathNotAllowed`, `LimitExceeded`.
    """
    new = command.new
    check_may_bind(scope, new.target, on_behalf=command.on_behalf)
    paths = (*new.read_paths, *new.write_paths)
    if not paths:
        raise InvalidField.of("binding", "names no path")
    if any(path.tenant != scope.tenant for path in paths):
        raise PathNotAllowed
    if new.owns_working_memory and new.target.kind is TargetKind.AGENT:
        raise InvalidField.of("binding.owns_working_memory", "only of a task or a session")
    if new.ttl > TTL_MAX:
        raise InvalidField.of("ttl", f"must be at most {TTL_MAX.days} days")
    await parts.storage.prepare(scope, paths[0], (), ())
    async with parts.storage.transaction(scope) as work:
        answer = await work.journal.replay(_BIND, command.request_id, command.body)
        if answer is not None:
            return _decode(new, answer)
        if await work.bindings.count() >= BINDINGS_MAX:
            raise LimitExceeded(metadata={"limit": "bindings_max", "max": str(BINDINGS_MAX)})
        binding = await work.bindings.keep(parts.ids.new("bind"), new)
        await work.journal.audit(_BIND, paths[0], [binding.id])
        await work.journal.keep(_BIND, command.request_id, _encode(binding))
    return binding


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbindCommand:
    """A parsed Unbind."""

    id: str
    on_behalf: bool
    request_id: str
    body: bytes


async def unbind_paths(parts: Parts, scope: Scope, command: UnbindCommand) -> int:
    """Give the number of working items that were forgotten with the binding.

    Raises `ResourceNotFound` for one that is not there or another user's, and `NotAllowed`.
    """
    async with parts.storage.transaction(scope) as work:
        answer = await work.journal.replay(_UNBIND, command.request_id, command.body)
        if answer is not None:
            return int(answer)
        binding = await work.bindings.lock(command.id)
        if binding is None:
            raise ResourceNotFound
        check_may_bind(scope, binding.target, on_behalf=command.on_behalf)
        ids = await _forget_working(work, scope, binding)
        await work.bindings.end(binding, None)
        await work.journal.audit(_UNBIND, _first(binding), [binding.id, *ids])
        await work.journal.keep(_UNBIND, command.request_id, str(len(ids)).encode())
        crash_point("memoryfs.unbind.before_commit")
    return len(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingsQuery:
    """A parsed ListBindings. `binding` is the request without its page fields."""

    targets: tuple[Target, ...]
    page_size: int
    page_token: str
    binding: bytes


async def list_bindings(parts: Parts, scope: Scope, query: BindingsQuery) -> tuple[list[Binding], str]:
    """Give the bindings of the caller's user that hold now, newest first, and where the next page begins."""
    tokens = PageTokens(await parts.storage.page_secret(scope))
    position = tokens.decode(scope, _LIST, query.binding, query.page_token)
    before = "" if position is None else position[0]
    if not isinstance(before, str):
        raise InvalidPageToken
    size = query.page_size or PAGE_SIZE_DEFAULT
    async with parts.storage.transaction(scope) as work:
        found = await work.bindings.newest(query.targets, before=before, limit=size + 1)
    page = found[:size]
    token = tokens.encode(scope, _LIST, query.binding, (page[-1].id,)) if len(found) > size else ""
    await parts.trail.record(_LIST, scope, None, [binding.id for binding in page])
    return page, token


async def end_due_bindings(parts: Parts, queue: BindingQueue, limit: int = 100) -> int:
    """End bindings whose time is over, each as its user; give how many were looked at.

    A task stays bounded for a while: only its working memory ends. One that cannot be ended now is
    tried again in a minute and does not hold up the others.
    """
    rows = await queue.due(limit)
    for row in rows:
        try:
            await _end(parts, row)
        except Exception:
            await queue.put_off(row)
            raise
    return len(rows)


async def _end(parts: Parts, row: DueBinding) -> None:
    scope = _owner_scope(row)
    async with parts.storage.transaction(scope) as work:
        binding = await work.bindings.lock(row.id)
        if binding is None:
            await work.bindings.drop_due(row.id)
            return
        if await work.bindings.live(row.id):
            return  # renewed in this instant
        ids = await _forget_working(work, scope, binding)
        gone_time = binding.expire_time + KEPT_AFTER
        keeps_ceiling = binding.target.kind is TargetKind.TASK and gone_time > parts.clock.now()
        await work.bindings.end(binding, gone_time if keeps_ceiling else None)
        await work.journal.audit(_EXPIRE, _first(binding), [binding.id, *ids])
        crash_point("memoryfs.unbind.before_commit")


async def _forget_working(work: Work, scope: Scope, binding: Binding) -> list[str]:
    """Forget the working items that go with a binding; give their ids."""
    if not binding.owns_working_memory:
        return []
    owner = access.owner_of(scope)
    forgotten: list[str] = []
    ids = await work.bindings.working_ids(binding)
    for start in range(0, len(ids), _TOGETHER):
        locked = await work.items.lock(ids[start : start + _TOGETHER])
        items = [item for item in locked.values() if binding.holds_working(item, owner)]
        if items:
            await work.items.set_state(items, State.FORGOTTEN, Cause.UNBIND)
            forgotten += [item.id for item in items]
    return forgotten


def _owner_scope(row: DueBinding) -> Scope:
    """Give the scope in which the upkeep works for a user: the user alone, without a role."""
    return Scope(
        tenant=row.tenant,
        user=row.owner.removeprefix("user:"),
        principals=(row.owner,),
        clearance=_CLEARANCE_MAX,
        roles=frozenset(),
        chain=(),
        session_id="",
        task_id="",
        read_paths=None,
        write_paths=None,
    )


def _first(binding: Binding) -> MemoryPath:
    return (*binding.write_paths, *binding.read_paths)[0]


def _encode(binding: Binding) -> bytes:
    return json.dumps([binding.id, binding.create_time.isoformat(), binding.expire_time.isoformat()]).encode()


def _decode(new: NewBinding, answer: bytes) -> Binding:
    binding_id, create_time, expire_time = json.loads(answer)
    return Binding(
        id=binding_id,
        target=new.target,
        read_paths=new.read_paths,
        write_paths=new.write_paths,
        owns_working_memory=new.owns_working_memory,
        create_time=datetime.fromisoformat(create_time),
        expire_time=datetime.fromisoformat(expire_time),
    )


def targets_named(**names: str) -> Sequence[Target]:
    """Give the targets whose names are not empty, by kind: session, task, agent."""
    return [Target(TargetKind[kind.upper()], name) for kind, name in names.items() if name]
