"""A look at a task that waits for a person: nothing is asked of the gateway while the review is open."""

from __future__ import annotations

from memoryos_core.errors import NotAllowed

from memoryos_harness.domain.states import StepState, TaskState
from memoryos_harness.errors import AccessRevoked, CancelRequested, LeaseLost
from memoryos_harness.operations.bind_memory import renew_while_waiting
from memoryos_harness.operations.task_run import TaskRun


async def still_waits(run: TaskRun) -> bool:
    """Tell whether the review is known to be open; the task is given back then, to be looked at again later.

    Any doubt is False: the call is asked for again, and the gateway tells what
    became of it.
    """
    claim, journal = run.claim, run.ports.journal
    if claim.state is not TaskState.WAITING_REVIEW or run.seconds_left <= 0:
        return False
    started = [step for step in claim.steps if step.state is StepState.STARTED]
    if not started or not started[0].ids.review_id:
        return False
    step = started[0]
    try:
        if not await run.ports.reviews.is_pending(await run.ports.tokens.mint(claim), step.ids.review_id):
            return False
        poll_s = run.settings.review_poll_s(claim.parked_s)
        await renew_while_waiting(run, poll_s)
        await journal.park(claim.lease, step, step.ids, wake_after_s=poll_s)
    except (NotAllowed, AccessRevoked):
        return False
    except CancelRequested:
        await journal.end_cancelled(claim.lease)
    except LeaseLost:
        pass
    return True
