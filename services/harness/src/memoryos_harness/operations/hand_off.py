"""The hand-off step: the task rests until a person takes the call over; what the person says is its answer."""

from __future__ import annotations

from memoryos_core.crashpoints import crash_point

from memoryos_harness.domain.actions import HandOff
from memoryos_harness.domain.journal_forms import hand_off_input
from memoryos_harness.domain.states import StepKind
from memoryos_harness.domain.tasks import Step
from memoryos_harness.operations.bind_memory import keep_memory_at_rest
from memoryos_harness.operations.task_run import TaskRun


async def hand_off(run: TaskRun, *, asked: HandOff | None = None, started: Step | None = None) -> None:
    """Journal that a person is asked to take over, and let the task rest with the step open.

    Whoever resumes the task finishes the step; a worker that finds it open died
    before the task rested.
    """
    lease, journal = run.claim.lease, run.ports.journal
    if started is None:
        assert asked is not None
        crash_point("harness.step.before_journal")
        target = asked.skill or asked.request.name
        step = await journal.begin(lease, kind=StepKind.HAND_OFF, target=target, given=hand_off_input(asked))
    else:
        step = await journal.resume(lease, started)
    run.started(step)
    crash_point("harness.step.after_started")
    await keep_memory_at_rest(run)
    await journal.rest(lease, step)
