"""Purge and its receipt: a person, items or a subtree, removed for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.errors import InvalidField, NotAllowed
from memoryos_core.paths import MemoryPath
from memoryos_core.scope import Scope
from memoryos_postgres.jobs import Job, JobState

from memoryos_memoryfs.domain import access
from memoryos_memoryfs.domain.erasure import PURGE, Target
from memoryos_memoryfs.domain.items import Cause, State
from memoryos_memoryfs.errors import ItemNotFound, NotOwner, ReceiptUnavailable, ResourceNotFound
from memoryos_memoryfs.operations.refusals import recorded
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.storage import Work

_RPC: Final = "memoryos.memoryfs.v1.MemoryFS/Purge"
_SEALED_FOR: Final = "service:memoryfs"
"""Whose key seals what a purge was asked: the person's own is destroyed before it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeCommand:
    """A parsed Purge; exactly one of user, ids and subtree."""

    user: str
    ids: tuple[str, ...]
    path: MemoryPath | None
    subtree: bool
    request_id: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What came of a purge."""

    text: bytes
    signature: str
    key_id: str


async def purge_items(parts: Parts, scope: Scope, command: PurgeCommand) -> str:
    """Give the name of the purge job; the same for the same request_id.

    A person is out of every read path when this returns, and so are items that
    are named; a subtree is within the first batches of the job. Refused for
    agents (`NotAllowed`), for another person or another's items (`NotAllowed`,
    `ItemNotFound`, `NotOwner`) unless the caller is a tenant-admin.
    """
    target = _target(scope, command)
    if parts.erasure.signer is None:
        raise ReceiptUnavailable
    path = command.path or MemoryPath.parse(f"/tenants/{scope.tenant}/memory/semantic")
    async with recorded(parts, _RPC, scope, path, command.ids), parts.storage.transaction(scope) as work:
        answer = await work.journal.replay(_RPC, command.request_id, command.body)
        if answer is not None:
            return answer.decode()
        if target.ids:
            await _take(parts, scope, work, target)
        job_id = await work.jobs.start(PURGE, target.encode(), subject=_SEALED_FOR)
        if target.user:
            await work.erasing.freeze(job_id, target.user)
        if target.ids:
            await work.erasing.freeze_items(target.ids)
        await work.journal.audit(_RPC, path, [job_id, *command.ids])
        await work.journal.keep(_RPC, command.request_id, job_id.encode(), subject=_SEALED_FOR)
        return job_id


def get_receipt(job: Job) -> Receipt:
    """Give the receipt of a purge that has ended (`ReceiptUnavailable` before, or when it failed)."""
    if job.kind != PURGE:
        raise ResourceNotFound
    if job.state is not JobState.SUCCEEDED:
        raise ReceiptUnavailable(metadata={"state": job.state.name, "phase": job.phase})
    result: Mapping[str, Any] = job.result
    return Receipt(text=result["receipt"].encode(), signature=result["signature"], key_id=result["key_id"])


def _target(scope: Scope, command: PurgeCommand) -> Target:
    if scope.chain:
        raise NotAllowed("No agent erases: a person asks for it.")
    if sum((bool(command.user), bool(command.ids), command.subtree)) != 1:
        raise InvalidField.of("user", "exactly one of user, ids and subtree")
    admin = access.WIDE_ROLE in scope.roles
    if command.user:
        if command.user != scope.user and not admin:
            raise NotAllowed("Only a tenant-admin erases another person.")
        if scope.write_paths is not None:
            raise NotAllowed("The token reaches some paths only.")
        return Target(user=command.user)
    if command.path is None:
        raise InvalidField.of("path", "needed with ids and subtree")
    access.check_write(scope, command.path)
    owner = "" if admin else access.owner_of(scope)
    if command.ids:
        if not all(command.ids):
            raise InvalidField.of("ids", "an id is empty")
        return Target(ids=tuple(sorted(set(command.ids))), path=command.path, owner=owner)
    return Target(path=command.path, owner=owner)


async def _take(parts: Parts, scope: Scope, work: Work, target: Target) -> None:
    """Forget the named items of the caller, or make sure that they are there for an administrator."""
    if not target.owner:
        there = await parts.erasure.store.owned(scope.tenant, target.ids, "")
        if there != frozenset(target.ids):
            raise ItemNotFound
        return
    locked = await work.items.lock(target.ids)
    missing = [item_id for item_id in target.ids if item_id not in locked]
    readable = await work.items.find(missing)
    if len(readable) < len(missing):
        raise ItemNotFound
    for item_id in target.ids:
        if item_id not in locked or not access.owns(scope, locked[item_id]):
            raise NotOwner(metadata={"id": item_id})
    items = [locked[item_id] for item_id in target.ids]
    if target.path is not None and not all(target.path.contains(item.path) for item in items):
        raise ItemNotFound
    alive = [item for item in items if item.state is not State.FORGOTTEN]
    if alive:
        await work.items.set_state(alive, State.FORGOTTEN, Cause.FORGET)
