"""One wake-up of a worker: take a task, carry it on from its journal, give it back."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from memoryos_core.crashpoints import crash_point
from memoryos_core.errors import DependencyUnavailable, MemoryOSError, NotAllowed
from memoryos_core.scope import Scope
from memoryos_telemetry.context import continue_trace
from memoryos_telemetry.names import (
    ATTEMPT,
    GEN_AI_AGENT,
    GEN_AI_OPERATION,
    INVOKE_AGENT,
    LEASE_EPOCH,
    SESSION_ID,
    TASK_ID,
)
from memoryos_telemetry.telemetry import tracer

from memoryos_harness.domain.actions import (
    AskModel,
    CallTool,
    Die,
    DoRecall,
    DoRecallSessions,
    HandOff,
    PageOut,
    Respond,
    Resume,
    StartChildren,
)
from memoryos_harness.domain.agents import DEFAULT_MODEL
from memoryos_harness.domain.journal import LIMIT_SECONDS, next_action
from memoryos_harness.domain.journal_forms import RECALL_SESSIONS
from memoryos_harness.domain.prompt import window_of
from memoryos_harness.domain.states import StepKind, TaskState
from memoryos_harness.domain.tasks import Step
from memoryos_harness.domain.window import Window
from memoryos_harness.errors import AccessRevoked, CancelRequested, LeaseLost, PauseRequested
from memoryos_harness.operations.ask_model import ask_model
from memoryos_harness.operations.bind_memory import bind_memory, keep_memory_at_rest, renew_memory, unbind_memory
from memoryos_harness.operations.call_tool import call_tool
from memoryos_harness.operations.hand_off import hand_off
from memoryos_harness.operations.look_at_review import still_waits
from memoryos_harness.operations.page_out import page_out
from memoryos_harness.operations.recall_for_model import recall_for_model
from memoryos_harness.operations.recall_sessions import recall_sessions
from memoryos_harness.operations.run_children import join_children, start_children
from memoryos_harness.operations.task_run import AttemptFailed, RunPorts, RunSettings, TaskDies, TaskRun

ACCESS_REVOKED: Final = "access_revoked"
REVOKED_MESSAGE: Final = "Access was revoked."
_LOG: Final = logging.getLogger(__name__)
_TRACER: Final = tracer("memoryos.harness")


async def run_task(ports: RunPorts, settings: RunSettings, tenant: str, task_id: str, stop: asyncio.Event) -> bool:
    """Carry a task on until it ends, waits, or `stop` is set; False when there was nothing to take.

    Whatever goes wrong is in the task's row afterwards: FAILED with a
    wake-up, DEAD with a reason, or held by a lease that runs out. Cancelling
    this call gives the lease back; steps that were under way are carried on by
    the next worker.
    """
    claim = await ports.journal.claim(tenant, task_id, holder=settings.holder, lease_s=settings.lease_s)
    if claim is None:
        return False
    run = TaskRun(ports=ports, settings=settings, claim=claim, stop=stop)
    try:
        if not await still_waits(run):
            await _traced(run)
    except Exception:
        # What went wrong could not be written down: the task is given back rather than left to its lease.
        await _give_back(run, patience_s=settings.lease_s, stalled=True)
        raise
    return True


async def _traced(run: TaskRun) -> None:
    claim = run.claim
    attributes: dict[str, str | int] = {
        GEN_AI_OPERATION: INVOKE_AGENT,
        GEN_AI_AGENT: claim.agent.name,
        TASK_ID: claim.lease.task_id,
        SESSION_ID: claim.session_id,
        ATTEMPT: claim.attempt,
        LEASE_EPOCH: claim.lease.epoch,
    }
    with (
        continue_trace(claim.traceparent),
        _TRACER.span(f"{INVOKE_AGENT} {claim.agent.name}", attributes=attributes),
    ):
        await _held(run)


async def _held(run: TaskRun) -> None:
    """Drive the task while its heartbeat goes; without the lease nothing more is done."""
    driver = asyncio.ensure_future(_drive(run))
    heart = asyncio.ensure_future(_beat(run))
    try:
        await asyncio.wait({driver, heart}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _cancelled(driver, heart)
        await asyncio.shield(_give_back(run, patience_s=0))
        raise
    if not driver.done():
        _LOG.warning("lease lost, stopping", extra={"task_id": run.claim.lease.task_id})
    await _cancelled(driver, heart)
    if driver.done() and not driver.cancelled():
        driver.result()
        if run.ended:
            await unbind_memory(run)


async def _cancelled(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _give_back(run: TaskRun, *, patience_s: float, stalled: bool = False) -> None:
    """Give the lease back; a store that does not answer is asked again for `patience_s`."""
    failures = 0
    after_s = run.settings.backoff_s(run.claim.stalled_attempts) if stalled else 0.0
    until = run.ports.clock.monotonic() + patience_s
    while True:
        try:
            return await run.ports.journal.release(run.claim.lease, after_s=after_s, stalled=stalled)
        except LeaseLost:
            return
        except MemoryOSError as error:
            # The lease runs out by itself: the task is late, not lost.
            _LOG.warning("lease not given back", extra={"task_id": run.claim.lease.task_id, "reason": error.reason})
        pause_s = run.settings.backoff_s(failures)
        if run.ports.clock.monotonic() + pause_s > until:
            return
        failures += 1
        await asyncio.sleep(pause_s)


async def _beat(run: TaskRun) -> None:
    """Hold the lease; return when it is lost. A silent database is not a lost lease: writes are fenced anyway."""
    while True:
        await asyncio.sleep(run.settings.heartbeat_s)
        try:
            state = await run.ports.journal.heartbeat(run.claim.lease, lease_s=run.settings.lease_s)
        except LeaseLost:
            return
        except MemoryOSError as error:
            _LOG.warning("heartbeat failed", extra={"task_id": run.claim.lease.task_id, "reason": error.reason})
            continue
        await renew_memory(run)
        run.revoked = run.revoked or await _is_revoked(run)
        if state is TaskState.CANCELLING or run.revoked:
            run.cancel.set()


async def _is_revoked(run: TaskRun) -> bool:
    """Tell whether access is known to be revoked: what has no effect is not waited for then."""
    try:
        await run.ports.tokens.check(run.claim)
    except AccessRevoked:
        return True
    except MemoryOSError:
        return False  # each token asks again, and is not made without an answer
    return False


async def _drive(run: TaskRun) -> None:
    lease, journal = run.claim.lease, run.ports.journal
    try:
        try:
            await _steps(run)
        except AttemptFailed as failure:
            await _fail(run, failure)
        except TaskDies as death:
            await journal.die(lease, code=death.code, message=death.message)
            run.ended = True
        except NotAllowed:
            await journal.die(lease, code="not_allowed", message="The agent asks for more than its user may give.")
            run.ended = True
        except AccessRevoked:
            await journal.die(lease, code=ACCESS_REVOKED, message=REVOKED_MESSAGE)
            run.ended = True
        except DependencyUnavailable:
            await _fail(run, AttemptFailed("store_unavailable", "A store did not answer."))
        except (CancelRequested, LeaseLost, PauseRequested):
            raise
        except Exception:
            _LOG.exception("step failed", extra={"task_id": lease.task_id})
            await _fail(run, AttemptFailed("internal", "A fault of ours stopped this attempt."))
    except CancelRequested:
        await _stopped(run)
    except PauseRequested:
        await _rest(run)
    except LeaseLost:
        _LOG.warning("write refused: another worker holds the task", extra={"task_id": lease.task_id})


async def _stopped(run: TaskRun) -> None:
    """End a task whose work was interrupted: it was asked to stop, or its access was revoked."""
    try:
        if run.revoked and run.claim.state is not TaskState.CANCELLING:
            await run.ports.journal.die(run.claim.lease, code=ACCESS_REVOKED, message=REVOKED_MESSAGE)
        else:
            await run.ports.journal.end_cancelled(run.claim.lease)
    except CancelRequested:
        await run.ports.journal.end_cancelled(run.claim.lease)
    run.ended = True


async def _rest(run: TaskRun) -> None:
    """Let a task rest that was asked to, unless it was asked to stop meanwhile."""
    await keep_memory_at_rest(run)
    try:
        await run.ports.journal.rest(run.claim.lease)
    except CancelRequested:
        await run.ports.journal.end_cancelled(run.claim.lease)
        run.ended = True


async def _fail(run: TaskRun, failure: AttemptFailed) -> None:
    state = await run.ports.journal.fail(
        run.claim.lease,
        code=failure.code,
        message=failure.message,
        retry_after_s=failure.retry_after_s or run.settings.backoff_s(run.claim.stalled_attempts),
        attempts_max=run.claim.agent.limits.attempts,
    )
    run.ended = state is TaskState.DEAD


async def _steps(run: TaskRun) -> None:
    """Do one action of the journal after the other."""
    lease, journal = run.claim.lease, run.ports.journal
    if run.claim.state is TaskState.CANCELLING:
        raise CancelRequested
    if run.claim.stalled_attempts >= run.claim.agent.limits.attempts:
        raise TaskDies("attempts", "Every attempt ended before a step was finished.")
    await run.ports.tokens.check(run.claim)
    await bind_memory(run)
    window = await _load_history(run)
    while True:
        action = next_action(run.claim.agent, run.steps, run.used, window)
        if run.stop.is_set() and not isinstance(action, Respond):  # an answer that is there is given
            await journal.release(lease)
            return
        if run.seconds_left <= 0 and not isinstance(action, Respond):
            raise TaskDies(LIMIT_SECONDS, f"The task reached its limit of {run.claim.agent.limits.seconds} seconds.")
        match action:
            case Respond(text):
                crash_point("harness.task.before_finish")
                await journal.succeed(lease, text)
                run.ended = True
                crash_point("harness.task.after_finish")
                return
            case Die(code, message):
                raise TaskDies(code, message)
            case DoRecall(recall):
                await recall_for_model(run, recall=recall)
            case DoRecallSessions():
                await recall_sessions(run)
            case AskModel():
                await ask_model(run, asking=action)
            case PageOut():
                await page_out(run, away=action)
            case HandOff():
                await hand_off(run, asked=action)
                return
            case CallTool(_, attempt):
                left_s = run.wait_left_s(attempt)
                if left_s > run.settings.wait_in_place_s:
                    await journal.release(lease, after_s=min(left_s, max(run.seconds_left, 0.0)))
                    return
                if left_s > 0:
                    await run.rest(left_s)
                elif not await call_tool(run, call=action):
                    return
            case Resume(step):
                if not await _resume(run, step):
                    return
            case StartChildren(requests):
                if not await start_children(run, requests):
                    return


async def _load_history(run: TaskRun) -> Window:
    """Read the session's turns before the question, which do not change any more; give the working window."""
    claim = run.claim
    run.history = await run.ports.sessions.history(
        Scope.of(claim.grant[-1].identity),
        claim.session_id,
        before_sequence=claim.question_sequence,
        limit=claim.agent.context.turns,
    )
    model = None if claim.agent.model == DEFAULT_MODEL else claim.agent.model
    return window_of(claim.agent, run.history, claim.question, endpoint_tokens=run.ports.model.context_tokens(model))


async def _resume(run: TaskRun, step: Step) -> bool:
    match step.kind:
        case StepKind.CHILD_TASK:
            return await join_children(run)
        case StepKind.MEMORY_READ if step.target == RECALL_SESSIONS:
            await recall_sessions(run, started=step)
        case StepKind.MEMORY_READ:
            await recall_for_model(run, started=step)
        case StepKind.MODEL_CALL:
            await ask_model(run, started=step)
        case StepKind.TOOL_CALL:
            return await call_tool(run, started=step)
        case StepKind.PAGE_OUT:
            await page_out(run, started=step)
        case StepKind.HAND_OFF:
            await hand_off(run, started=step)
            return False
    return True
