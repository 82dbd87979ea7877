"""Long operations that outlive the process which began them (core.jobs).

async with database.scoped(scope) as tx:
    job_id = await jobs.start(tx, scope, "memory.purge", request_bytes)   # with the write that it belongs to

async def purge(run: JobRun) -> Mapping[str, object]:
    while batch := await next_batch(run.checkpoint):
        async with database.scoped(run.scope) as tx:
            …
            await run.save(done=n, checkpoint={"after": batch[-1]}, tx=tx)   # commits with what it says
    return {"purged": n}

await JobRunner(jobs, {"memory.purge": purge}).run_forever()
"""

from memoryos_postgres.jobs.model import Job, JobState
from memoryos_postgres.jobs.run import Handler, JobCancelled, JobLost, JobRun, JobWaits
from memoryos_postgres.jobs.runner import JobRunner, JobSettings
from memoryos_postgres.jobs.store import Jobs

__all__ = [
    "Handler",
    "Job",
    "JobCancelled",
    "JobLost",
    "JobRun",
    "JobRunner",
    "JobSettings",
    "JobState",
    "JobWaits",
    "Jobs",
]
