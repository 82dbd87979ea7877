"""What each kind of job does: one line a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryos_postgres.jobs import Handler, JobRun

from memoryos_memoryfs.domain.erasure import PURGE
from memoryos_memoryfs.job_progress import RunProgress
from memoryos_memoryfs.operations.index_admin import MIGRATE_JOB, VERIFY_JOB, migrate_job, verify_job
from memoryos_memoryfs.operations.merge_items import JOB_KIND as MERGE_JOB
from memoryos_memoryfs.operations.run_purge import run_purge
from memoryos_memoryfs.operations.write_abstract import ABSTRACT_S, write_abstract
from memoryos_memoryfs.parts import Parts
from memoryos_memoryfs.servicers.history import merge_command


def handlers_of(parts: Parts) -> Mapping[str, Handler]:
    """Give the handlers of this service by the kind of job."""

    async def migrate(run: JobRun) -> Mapping[str, Any]:
        return await migrate_job(parts, RunProgress(run))

    async def verify(run: JobRun) -> Mapping[str, Any]:
        return await verify_job(parts, RunProgress(run), run.input, run.checkpoint)

    async def merge(run: JobRun) -> Mapping[str, Any]:
        return await write_abstract(parts, run.scope, merge_command(run.input, ABSTRACT_S), run.id)

    async def purge(run: JobRun) -> Mapping[str, Any]:
        return await run_purge(parts.erasure, parts.index, run)

    return {MIGRATE_JOB: migrate, VERIFY_JOB: verify, MERGE_JOB: merge, PURGE: purge}
