"""MigrateIndex and VerifyIndex as operators call them: one transaction each, the rest is a job."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from memoryos_core.scope import Scope

from memoryos_memoryfs.errors import MigrationPhaseForbids
from memoryos_memoryfs.operations.migrate_index import Progress, Step, run_move, take_step
from memoryos_memoryfs.operations.verify_index import Drift, verify_index
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.ports.index import Backend

MIGRATE: Final = "memoryos.memoryfs.v1.MemoryFS/MigrateIndex"
VERIFY: Final = "memoryos.memoryfs.v1.MemoryFS/VerifyIndex"
MIGRATE_JOB: Final = "memory.migrate_index"
VERIFY_JOB: Final = "memory.verify_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateCommand:
    """A parsed MigrateIndex."""

    to: Backend
    step: Step
    request_id: str
    body: bytes


async def migrate_index(parts: Parts, scope: Scope, command: MigrateCommand) -> str:
    """Take one step of a move and give the name of the job that START begins, else "".

    Raises `MigrationPhaseForbids` when it is not the time for the step.
    """
    async with _recorded(parts, scope, command), parts.storage.transaction(scope) as work:
        answer = await work.journal.replay(MIGRATE, command.request_id, command.body)
        if answer is not None:
            return answer.decode()
        job_id = await work.jobs.start(MIGRATE_JOB, b"") if command.step is Step.START else ""
        await work.journal.audit_admin(MIGRATE, _target(command))
        await work.journal.keep(MIGRATE, command.request_id, job_id.encode())
        await take_step(parts.index, work.backends, command.step, command.to)
    return job_id


@asynccontextmanager
async def _recorded(parts: Parts, scope: Scope, command: MigrateCommand) -> AsyncIterator[None]:
    """Record a step that is refused; its own transaction was rolled back."""
    try:
        yield
    except MigrationPhaseForbids as error:
        await parts.trail.refused(MIGRATE, scope, None, [_target(command)], error.reason)
        raise


def _target(command: MigrateCommand) -> str:
    return f"{command.step.name}:{command.to.value}"


async def start_verify(parts: Parts, scope: Scope, *, repair: bool, request_id: str, body: bytes) -> str:
    """Give the name of the job that compares the copy with the truth."""
    if parts.index.copy is None:
        raise MigrationPhaseForbids(metadata={"qdrant": "not configured here"})
    async with parts.storage.transaction(scope) as work:
        answer = await work.journal.replay(VERIFY, request_id, body)
        if answer is not None:
            return answer.decode()
        job_id = await work.jobs.start(VERIFY_JOB, json.dumps({"repair": repair}).encode())
        await work.journal.audit_admin(VERIFY, "repair" if repair else "compare")
        await work.journal.keep(VERIFY, request_id, job_id.encode())
    return job_id


async def migrate_job(parts: Parts, progress: Progress) -> Mapping[str, Any]:
    """Do the work of a move and give its result."""
    return (await run_move(parts.index, progress)).as_json()


async def verify_job(
    parts: Parts, progress: Progress, asked: bytes, checkpoint: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Compare tenant after tenant from the checkpoint on, and give the counts."""
    copy = parts.index.copy
    if copy is None:
        raise MigrationPhaseForbids(metadata={"qdrant": "not configured here"})
    drift = Drift(**checkpoint.get("counts", {}))
    repair = bool(json.loads(asked)["repair"])
    after: str = checkpoint.get("after", "")
    async for tenant, so_far in verify_index(parts.index, copy, repair=repair, after_tenant=after, drift=drift):
        await progress.at("verify", so_far.compared, 0, {"after": tenant, "counts": so_far.counts()})
    return drift.counts()
